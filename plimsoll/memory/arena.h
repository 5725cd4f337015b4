// An Arena is one fixed range of memory for a plan: taken as a whole before the run, page tables and all, so that the
// run itself allocates nothing. Offsets into it are the plan's.
#pragma once

#include <cstdint>
#include <vector>

#include "plimsoll/base/budget.h"
#include "plimsoll/memory/page_source.h"

namespace plimsoll {

class Arena {
 public:
  // Whether it is memory at once, or addresses alone, that kernels may be bound to, until take_pages().
  enum class Pages : uint8_t { now, later };

  // `bytes` rounded up to pages. ResourceExhausted, with nothing taken, when that is above the budget or the source
  // has less.
  Arena(PageSource& pages, int64_t bytes, const Budget& budget, Pages when = Pages::now);
  ~Arena() { give_back(); }
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;

  void take_pages();

  std::byte* data() const { return data_; }
  int64_t bytes() const { return bytes_; }
  int64_t reserved_bytes() const { return static_cast<int64_t>(ids_.size()) * pages_.page_bytes(); }

 private:
  void give_back();

  PageSource& pages_;
  int64_t bytes_;
  Budget budget_;
  std::vector<PageId> ids_;
  bool has_pages_ = false;
  std::byte* data_ = nullptr;
};

}  // namespace plimsoll
