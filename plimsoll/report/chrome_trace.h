// Histories in the Chrome trace format, which Perfetto and chrome://tracing open: live bytes by category as counters;
// of a recording failures and optimizer steps as instants, of a step its ops on tracks.
#pragma once

#include <string>

#include "plimsoll/explain/snapshot.h"
#include "plimsoll/report/step_history.h"

namespace plimsoll::report {

std::string chrome_trace(const explain::Snapshot& snapshot);

// A step of a model: each op where it runs, as often as it runs, one track for each phase and one for copies to and
// from a file; the peak as an instant. `measured`: seconds of the steps of a run, which go on a track of their own.
// Where the times of ops are not known each takes a microsecond.
std::string chrome_trace(const StepHistory& history, const std::string& title,
                         const std::vector<double>& measured = {});

}  // namespace plimsoll::report
