// A budget that others may change while a run goes on, by writing a size to a file. Not thread-safe.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "plimsoll/base/budget.h"

namespace plimsoll::train {

class BudgetFile {
 public:
  // No path: no such file. Otherwise it holds a size, which is the budget from now on; SystemError or InputError when
  // it does not. `on_note`, where there is one, is told why a budget stays.
  BudgetFile(std::string path, Budget& budget, std::function<void(const std::string&)> on_note = {});

  // Whether the file says something new; `budget` is that then. A file that is gone or holds no size any more is noted
  // once, and the budget stays.
  bool changes(Budget& budget);

 private:
  int64_t size_in(const std::string& text) const;

  std::string path_;
  std::function<void(const std::string&)> on_note_;
  std::string seen_;
  std::string noted_;
};

}  // namespace plimsoll::train
