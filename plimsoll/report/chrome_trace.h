// Histories in the Chrome trace format, which Perfetto and chrome://tracing open: live bytes by category as counters;
// of a recording failures and optimizer steps as instants, of a step its ops on tracks.
#pragma once

#include <string>
#include <vector>

#include "plimsoll/explain/snapshot.h"
#include "plimsoll/report/step_history.h"

namespace plimsoll::report {

std::string chrome_trace(const explain::Snapshot& snapshot);

// What goes beside the ops of a step.
struct MeasuredSteps {
  std::vector<double> seconds = {};  // of the steps of a run, on a track of their own
  std::vector<double> waits = {};    // seconds that each step waited for its data before it began; empty: not known
  int64_t data_bytes = 0;            // of the buffers of the data pipeline, beside the step's; 0: none
  std::string profile = {};          // JSON that the file has under "plimsoll"; empty: nothing
};

// A step of a model: each op where it runs, as often as it runs, one track for each phase and one for copies to and
// from a file; the peak as an instant. Where the times of ops are not known each takes a microsecond.
std::string chrome_trace(const StepHistory& history, const std::string& title, const MeasuredSteps& measured = {});

}  // namespace plimsoll::report
