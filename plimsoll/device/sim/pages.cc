#include "plimsoll/device/sim/pages.h"

#include <sys/mman.h>

#include <algorithm>
#include <cerrno>

#include "plimsoll/base/bytes.h"

namespace plimsoll::device {

void Twins::add(std::byte* range, int64_t bytes, std::byte* twin) {
  const std::lock_guard held(lock_);
  ranges_[range] = {bytes, twin};
}

void Twins::remove(std::byte* range) {
  const std::lock_guard held(lock_);
  ranges_.erase(range);
}

std::byte* Twins::find(const std::byte* at) const {
  const std::lock_guard held(lock_);
  auto after = ranges_.upper_bound(at);
  if (after == ranges_.begin()) return nullptr;
  const auto& [range, twin] = *--after;
  return at - range <= twin.bytes ? twin.at + (at - range) : nullptr;
}

// A page more than asked for, so that two ranges never touch. Aligned to a page of the source.
std::byte* SimPages::reserve(int64_t bytes) {
  const int64_t page = page_bytes();
  const int64_t whole = align_up(std::max<int64_t>(bytes, 1), page) + 2 * page;
  void* raw = mmap(nullptr, static_cast<size_t>(whole), PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (raw == MAP_FAILED) throw SystemError::from_errno("reserving addresses for sim", errno);
  auto* first = static_cast<std::byte*>(raw);
  auto* range = first + (align_up(reinterpret_cast<int64_t>(first), page) - reinterpret_cast<int64_t>(first));
  const int64_t end = align_up(std::max<int64_t>(bytes, 1), page) + page;
  if (range > first) munmap(first, static_cast<size_t>(range - first));
  if (first + whole > range + end) munmap(range + end, static_cast<size_t>(first + whole - (range + end)));
  try {
    twins_.add(range, bytes, host_.reserve(bytes));
  } catch (...) {
    munmap(range, static_cast<size_t>(end));
    throw;
  }
  return range;
}

void SimPages::release(std::byte* range, int64_t bytes) {
  host_.release(twins_.find(range), bytes);
  twins_.remove(range);
  munmap(range, static_cast<size_t>(align_up(std::max<int64_t>(bytes, 1), page_bytes()) + page_bytes()));
}

}  // namespace plimsoll::device
