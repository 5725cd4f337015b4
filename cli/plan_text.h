// Plans as verbs print them (plimsoll/report/plan_text.h), and how the search for one goes on.
#pragma once

#include <functional>

#include "plimsoll/report/plan_text.h"

namespace plimsoll::cli {

using report::alternatives_json;
using report::batch_text;
using report::costs_text;
using report::measure_text;
using report::predicted_text;
using report::setting_text;

// What is tried, and the best of it so far, on the terminal; none where that is no terminal.
std::function<void(const plan::Progress&)> planning_progress();

}  // namespace plimsoll::cli
