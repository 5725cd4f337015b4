// What programs add to a table of the library before its first use. Thread-safe.
#pragma once

#include <mutex>
#include <string>
#include <vector>

#include "plimsoll/base/error.h"

namespace plimsoll {

template <class Table>
class Extensions {
 public:
  explicit Extensions(std::string what) : what_(std::move(what)) {}

  // ArgumentError when the table was made: what was looked up in it before would not know the addition.
  void add(void (*enter_into)(Table&)) {
    const std::lock_guard lock(mutex_);
    if (entered_) throw ArgumentError("the table of " + what_ + "s is in use: add to it before anything else runs");
    all_.push_back(enter_into);
  }

  // Calls them all. Once.
  void enter(Table& table) {
    const std::lock_guard lock(mutex_);
    entered_ = true;
    for (const auto enter_into : all_) enter_into(table);
  }

 private:
  std::string what_;
  std::mutex mutex_;
  std::vector<void (*)(Table&)> all_;
  bool entered_ = false;
};

}  // namespace plimsoll
