// The verbs of `plimsoll`, one file each; the build finds them. A verb adds its subcommand with flags, help and an
// example; its callback does the work and prints to stdout. Expected errors are thrown and become a message and a
// status in main.cc: 0 done, 1 does not fit or a finding, 2 bad arguments or input.
#pragma once

#include <span>

#include "cli/command.h"

namespace plimsoll::cli {

inline constexpr int kDone = 0;
inline constexpr int kFinding = 1;
inline constexpr int kBadInput = 2;

// `status` is what the process exits with; a callback sets it when that is not kDone.
using AddVerb = void (*)(const Command& app, int& status);

// All of them, in the order of their names: every file here but main.cc defines add_<its name>.
std::span<const AddVerb> verbs();

}  // namespace plimsoll::cli
