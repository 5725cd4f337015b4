#include "plimsoll/memory/extents.h"

#include <algorithm>
#include <cassert>
#include <limits>

namespace plimsoll {

int64_t Extents::largest() const { return sizes_.empty() ? 0 : *std::max_element(sizes_.begin(), sizes_.end()); }

size_t Extents::index_at(int64_t offset) const {
  const auto after = std::upper_bound(offsets_.begin(), offsets_.end(), offset);
  return after == offsets_.begin() ? count() : static_cast<size_t>(after - offsets_.begin()) - 1;
}

void Extents::insert(int64_t offset, int64_t size) {
  assert(size > 0 && size <= kLargest);
  const auto after = std::lower_bound(offsets_.begin(), offsets_.end(), offset);
  const auto index = after - offsets_.begin();
  const auto at = static_cast<size_t>(index);
  const bool joins_next = at < count() && offsets_[at] == offset + size && sizes_[at] <= kLargest - size;
  const int64_t joined = size + (joins_next ? sizes_[at] : 0);
  const bool joins_previous =
      at > 0 && offsets_[at - 1] + sizes_[at - 1] == offset && sizes_[at - 1] <= kLargest - joined;
  if (joins_previous && joins_next) {
    sizes_[at - 1] += static_cast<int32_t>(joined);
    offsets_.erase(after);
    sizes_.erase(sizes_.begin() + index);
  } else if (joins_previous) {
    sizes_[at - 1] += static_cast<int32_t>(size);
  } else if (joins_next) {
    offsets_[at] = offset;
    sizes_[at] += static_cast<int32_t>(size);
  } else {
    offsets_.insert(after, offset);
    sizes_.insert(sizes_.begin() + index, static_cast<int32_t>(size));
  }
}

int64_t Extents::best_fit(int64_t size) const {
  if (size > kLargest) return kNone;
  constexpr auto kNever = std::numeric_limits<int32_t>::max();  // above kLargest
  const auto wanted = static_cast<int32_t>(size);
  int32_t best = kNever;  // two simple passes, so that the compiler makes vector code of the first
  for (const int32_t candidate : sizes_) best = std::min(best, candidate >= wanted ? candidate : kNever);
  if (best == kNever) return kNone;
  return offsets_[static_cast<size_t>(std::find(sizes_.begin(), sizes_.end(), best) - sizes_.begin())];
}

bool Extents::contains(int64_t offset, int64_t size) const {
  const size_t index = index_at(offset);
  return index < count() && offset + size <= offsets_[index] + sizes_[index];
}

void Extents::carve(int64_t offset, int64_t size) {
  assert(contains(offset, size));
  const size_t index = index_at(offset);
  const auto at = static_cast<std::ptrdiff_t>(index);
  const int64_t before = offset - offsets_[index];
  const int64_t after = sizes_[index] - before - size;
  if (before > 0 && after > 0) {
    sizes_[index] = static_cast<int32_t>(before);
    offsets_.insert(offsets_.begin() + at + 1, offset + size);
    sizes_.insert(sizes_.begin() + at + 1, static_cast<int32_t>(after));
  } else if (before > 0) {
    sizes_[index] = static_cast<int32_t>(before);
  } else if (after > 0) {
    offsets_[index] += size;
    sizes_[index] = static_cast<int32_t>(after);
  } else {
    offsets_.erase(offsets_.begin() + at);
    sizes_.erase(sizes_.begin() + at);
  }
}

void Extents::drain_into(Extents& other) {
  for (size_t i = 0; i < count(); ++i) other.insert(offsets_[i], sizes_[i]);
  offsets_.clear();
  sizes_.clear();
}

}  // namespace plimsoll
