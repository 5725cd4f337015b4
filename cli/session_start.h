// A model of the options, ready to run, and its peaks as verbs print them.
#pragma once

#include <string_view>

#include "cli/model_options.h"
#include "plimsoll/train/start_session.h"

namespace plimsoll::cli {

using train::Peaks;
using train::StartedSession;

StartedSession start_session(const ModelOptions& options, uint64_t seed);

void print_peaks(const Peaks& peaks);
void print_bytes(std::string_view what, int64_t bytes, std::string_view note);

}  // namespace plimsoll::cli
