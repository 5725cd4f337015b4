// What the processes of a command under `plimsoll exec` left in its folder, explained.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "plimsoll/explain/explain.h"
#include "plimsoll/memory/kernel_kills.h"

namespace plimsoll::explain {

// One out-of-memory event of one process, or of the log.
struct ExecFinding {
  std::string who;   // "rank 3", "process 4711", "the command"
  std::string file;  // the snapshot; empty for the log
  Input input;
  Explanation explanation;
};

struct ExecFindings {
  std::vector<ExecFinding> explained;
  std::vector<std::string> pool_reports;  // of our pool, as it wrote them
  std::vector<nlohmann::json> processes;  // what each process that used CUDA says of itself
  std::vector<std::string> notes;
  std::vector<std::string> recordings;  // snapshots and traces written at the end
  KernelKill host;

  bool out_of_memory() const { return !explained.empty() || !pool_reports.empty() || host.killed; }
};

// `errors`: the end of the command's standard error; empty when it ended well, or wrote none.
ExecFindings collect_findings(const std::string& folder, const std::string& errors, const KernelKill& host);

}  // namespace plimsoll::explain
