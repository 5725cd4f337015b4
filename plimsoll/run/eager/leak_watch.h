// Watches what eager tensors hold from step to step: bytes that stay alive at the end of every step, and grow, are a
// leak (a list of losses with their tapes, batches that are appended and never let go), and the tag they were made
// under is its place.
//
//   LeakWatch watch(host.pool());
//   for (..) { step(); watch.step(); }
//   for (const Leak& leak : watch.leaks()) fmt::print("{}\n", leak.text());
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "plimsoll/memory/pool.h"

namespace plimsoll::eager {

struct Leak {
  std::string place = {};  // the tag: a name that the program gave, or the op that made it
  Category category = Category::other;
  double bytes_per_step = 0;  // the slope of the line that fits best
  int64_t live_bytes = 0;
  int64_t live_blocks = 0;
  int64_t steps = 0;  // that it was seen to grow in
  // After which the budget is full, at this rate and with all else as it is.
  std::optional<int64_t> steps_left = {};

  // "loader.append grows by 7.63 MiB a step: 76.29 MiB in 10 blocks after 10 steps; the budget is full in 54 steps"
  std::string text() const;
};

class LeakWatch {
 public:
  // Looks at the last `window` steps. The pool must outlive it.
  explicit LeakWatch(const Pool& pool, int64_t window = 64) : pool_(pool), window_(window) {}

  // At the same place of each step, best at its end.
  void step();

  // What grew in at least five steps, along a line: the largest slope first. Memory that comes and goes, and what a
  // first step sets up to stay, is none.
  std::vector<Leak> leaks() const;

 private:
  using Key = std::pair<Category, std::string>;
  struct History {
    std::deque<int64_t> bytes;  // at the end of each of the last steps
    int64_t blocks = 0;         // at present
  };

  const Pool& pool_;
  int64_t window_;
  int64_t steps_ = 0;
  std::map<Key, History> histories_;
};

}  // namespace plimsoll::eager
