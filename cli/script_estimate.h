// `estimate -- COMMAND`: a PyTorch script run on a simulated card, and what it would take on a real one.
#pragma once

#include <string>
#include <vector>

#include "cli/page_options.h"

namespace plimsoll::cli {

struct ScriptOptions {
  std::vector<std::string> command;
  std::string gpu = "h200";
  int64_t steps = 0;       // 0: until steps repeat
  bool fake_data = false;  // one batch of each data loader, again and again
  bool json = false;
  PageOptions page = {};
};

// The status to exit with.
int estimate_script(const ScriptOptions& options);

}  // namespace plimsoll::cli
