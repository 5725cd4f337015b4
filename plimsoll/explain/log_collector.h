// The lines of a log that may mean something, of each rank put together into failures.
#pragma once

#include <memory>
#include <string_view>

#include "plimsoll/explain/log.h"

namespace plimsoll::explain {

class LogCollector {
 public:
  // `findings.lines` is the number of the line that is handed over, kept by the caller.
  explicit LogCollector(LogFindings& findings);
  ~LogCollector();
  LogCollector(const LogCollector&) = delete;
  LogCollector& operator=(const LogCollector&) = delete;

  // Returns for how many lines to look on. `before` is the log up to this one.
  int line(std::string_view raw, std::string_view before);

 private:
  class Lines;
  std::unique_ptr<Lines> lines_;
};

}  // namespace plimsoll::explain
