#include "plimsoll/memory/simulated_pages.h"

#include <fmt/format.h>

#include <bit>

#include "plimsoll/base/bytes.h"

namespace plimsoll {

SimulatedPages::SimulatedPages(int64_t page_bytes, int64_t capacity_bytes, std::string device)
    : page_bytes_(page_bytes), capacity_pages_(0), device_(std::move(device)), next_address_(uintptr_t{1} << 44) {
  if (page_bytes < 256 || !std::has_single_bit(static_cast<uint64_t>(page_bytes))) {
    throw ArgumentError(fmt::format("a page of {} B: expected a power of two of at least 256 B", page_bytes));
  }
  capacity_pages_ = capacity_bytes / page_bytes;
}

std::byte* SimulatedPages::reserve(int64_t bytes) {
  const uintptr_t range = next_address_;
  next_address_ += static_cast<uintptr_t>(align_up(bytes, page_bytes_));
  return reinterpret_cast<std::byte*>(range);
}

void SimulatedPages::release(std::byte* /*range*/, int64_t /*bytes*/) {}

void SimulatedPages::create(std::span<PageId> pages) {
  const auto count = static_cast<int64_t>(pages.size());
  if (created_ + count > capacity_pages_) {
    throw PagesExhausted(fmt::format("{} has {} pages of {} and {} are in use", device_, capacity_pages_,
                                     format_bytes(page_bytes_), created_));
  }
  for (PageId& page : pages) {
    if (unused_.empty()) {
      page = next_page_++;
    } else {
      page = unused_.back();
      unused_.pop_back();
    }
  }
  created_ += count;
}

void SimulatedPages::destroy(std::span<const PageId> pages) {
  unused_.insert(unused_.end(), pages.begin(), pages.end());
  created_ -= static_cast<int64_t>(pages.size());
}

void SimulatedPages::map(std::byte* /*at*/, std::span<const PageId> pages) {
  mapped_ += static_cast<int64_t>(pages.size());
}

void SimulatedPages::unmap(std::byte* /*at*/, int64_t page_count) { mapped_ -= page_count; }

}  // namespace plimsoll
