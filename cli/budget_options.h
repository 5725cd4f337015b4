// The budget that a step or a run has to keep to, and what may be done for it.
#pragma once

#include <string>

#include "cli/model_options.h"
#include "plimsoll/base/budget.h"

namespace plimsoll::cli {

struct BudgetOptions {
  std::string budget;       // "2GiB", "auto"; empty: none
  std::string budget_file;  // with another one, looked at between steps; empty: none
  std::string spill_dir;    // on a disk; empty: nothing is spilled
  bool strict = false;      // more than the machine has is refused
  FormOptions form = {.measure = true};
};

// A budget of zero makes no sense; one above what the machine has is told, and refused when that is asked for.
Budget read_budget(const BudgetOptions& options, const std::string& device);

}  // namespace plimsoll::cli
