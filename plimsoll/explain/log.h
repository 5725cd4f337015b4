// Finds every out-of-memory report in a log of any size, in one pass and constant memory: prefilter, then lines, then
// forms. Reports of several ranks may be interleaved; colours, notebook JSON and UTF-16 are undone.
#pragma once

#include <vector>

#include "plimsoll/base/byte_source.h"
#include "plimsoll/explain/failure.h"
#include "plimsoll/explain/memory_summary.h"

namespace plimsoll::explain {

struct LogFindings {
  std::vector<Failure> failures;         // in order of the log; the same message of the same rank only once
  std::vector<MemorySummary> summaries;  // tables of torch.cuda.memory_summary
  int64_t more_failures = 0;             // beyond the first thousand different ones, only counted
  int64_t not_failures = 0;              // "ran out of memory ... this is not a failure"
  int64_t bytes = 0;
  int64_t lines = 0;  // up to the last one that was looked at
};

LogFindings read_log(ByteSource& source);

// What read_log looks for, for the answer when there is nothing: "PyTorch, TensorFlow, ...".
std::string_view log_forms();

}  // namespace plimsoll::explain
