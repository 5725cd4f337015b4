// The pages that one pool holds, counted against its limit. The pool's heap and its slabs draw on the same ledger.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <string>

#include "plimsoll/memory/page_source.h"

namespace plimsoll {

class PageLedger {
 public:
  PageLedger(PageSource& source, int64_t limit_bytes)
      : source_(source), limit_pages_(limit_bytes / source.page_bytes()) {}

  PageSource& source() const { return source_; }
  int64_t page_bytes() const { return source_.page_bytes(); }
  int64_t limit_pages() const { return limit_pages_; }
  int64_t resident_pages() const { return resident_; }
  int64_t left_pages() const { return limit_pages_ - resident_; }
  int64_t created_pages() const { return created_; }  // ever
  int64_t peak_pages() const { return peak_; }
  void reset_peak() { peak_ = resident_; }

  // All or none: false above the limit, or when the source has no more.
  bool try_create(std::span<PageId> pages) {
    const auto count = static_cast<int64_t>(pages.size());
    refusal_.clear();
    if (count > left_pages()) return false;
    try {
      source_.create(pages);
    } catch (const PagesExhausted& exhausted) {
      refusal_ = exhausted.what();
      return false;
    }
    resident_ += count;
    created_ += count;
    peak_ = std::max(peak_, resident_);
    return true;
  }

  // What the source said when it gave less than the limit promised at the last try_create; empty otherwise.
  const std::string& refusal() const { return refusal_; }

  void destroy(std::span<const PageId> pages) {
    source_.destroy(pages);
    resident_ -= static_cast<int64_t>(pages.size());
  }

 private:
  PageSource& source_;
  int64_t limit_pages_;
  int64_t resident_ = 0;
  int64_t created_ = 0;
  int64_t peak_ = 0;
  std::string refusal_;
};

}  // namespace plimsoll
