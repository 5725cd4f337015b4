// What `plimsoll exec` says when the command has ended.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "plimsoll/explain/exec_findings.h"

namespace plimsoll::report {

// How a command ended.
struct CommandEnd {
  int status = 0;  // as a shell gives it
  int signal = 0;  // that ended it
  int64_t max_resident_bytes = 0;
};

// `ended_well`: the command exited with 0, so what ran out was caught by it.
std::string findings_text(const explain::ExecFindings& findings, bool ended_well, bool colour);

nlohmann::ordered_json findings_json(const explain::ExecFindings& findings, const CommandEnd& end);

}  // namespace plimsoll::report
