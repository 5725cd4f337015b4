// `plimsoll train` under a budget for the whole process: the plan, what it is told of it, and the run.
#pragma once

#include <string>
#include <string_view>

#include "cli/model_options.h"
#include "plimsoll/memory/limits.h"
#include "plimsoll/train/fit_model.h"

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

// A budget that others may change while a run goes on, by writing a size to a file.
class BudgetFile {
 public:
  // No path: no such file. Otherwise it holds a size, which is the budget from now on; SystemError or InputError when
  // it does not.
  BudgetFile(std::string path, Budget& budget);

  // Whether the file says something new; `budget` is that then. A file that is gone or holds no size any more is told
  // once, and the budget stays.
  bool changes(Budget& budget);

 private:
  int64_t size_in(const std::string& text) const;

  std::string path_;
  std::string seen_;
  std::string told_;
};

// The plan as it was chosen, with a picture of its live bytes against the budget.
void print_plan(const train::Fit& fit, const Budget& budget, std::string_view costs);

}  // namespace plimsoll::cli
