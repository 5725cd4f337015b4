#include "plimsoll/memory/arena.h"

#include <fmt/format.h>

#include "plimsoll/base/bytes.h"
#include "plimsoll/base/oom.h"

namespace plimsoll {
namespace {

[[noreturn]] void refuse(const PageSource& pages, int64_t bytes, const Budget& budget, std::string help) {
  OomReport report;
  report.requested_bytes = bytes;
  report.tag = "the plan's arena";
  report.device = pages.device();
  report.allocator = "arena";
  report.budget = budget;
  report.largest_free_bytes = budget.bytes;
  report.help.push_back(std::move(help));
  throw ResourceExhausted(std::move(report));
}

}  // namespace

Arena::Arena(PageSource& pages, int64_t bytes, const Budget& budget, Pages when)
    : pages_(pages), bytes_(bytes), budget_(budget) {
  if (bytes < 0) throw ArgumentError(fmt::format("an arena of {} bytes", bytes));
  const int64_t count = bytes / pages.page_bytes() + (bytes % pages.page_bytes() > 0 ? 1 : 0);
  if (count > budget.bytes / pages.page_bytes()) {
    const int64_t needed = checked_multiply(count, pages.page_bytes()).value_or(INT64_MAX);
    refuse(pages, bytes, budget, fmt::format("a budget of {} ({} B)", format_bytes(needed), format_count(needed)));
  }
  ids_.resize(static_cast<size_t>(count));
  data_ = pages.reserve(reserved_bytes());
  if (when == Pages::later) return;
  try {
    take_pages();
  } catch (...) {
    give_back();
    throw;
  }
}

void Arena::take_pages() {
  try {
    pages_.create(ids_);
  } catch (const PagesExhausted& exhausted) {
    refuse(pages_, bytes_, budget_, fmt::format("less beside it on this device: {}", exhausted.what()));
  }
  try {
    pages_.map(data_, ids_);
  } catch (...) {
    pages_.destroy(ids_);
    throw;
  }
  has_pages_ = true;
  pages_.prefault(data_, static_cast<int64_t>(ids_.size()));
}

void Arena::give_back() {
  if (has_pages_) pages_.unmap(data_, static_cast<int64_t>(ids_.size()));
  pages_.release(data_, reserved_bytes());
  if (has_pages_) pages_.destroy(ids_);
}

}  // namespace plimsoll
