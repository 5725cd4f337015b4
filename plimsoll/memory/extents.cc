#include "plimsoll/memory/extents.h"

#include <algorithm>
#include <cassert>
#include <limits>

namespace plimsoll {
namespace {

constexpr size_t kMostScanned = 128;  // extents that one pass finds the best of sooner than an index

}  // namespace

int64_t Extents::largest() const { return sizes_.empty() ? 0 : *std::max_element(sizes_.begin(), sizes_.end()); }

// Without branches: where it is cannot be predicted.
size_t Extents::first_at_or_after(int64_t offset) const {
  const int64_t* first = offsets_.data();
  size_t length = count();
  while (length > 1) {
    const size_t half = length / 2;
    first += first[half - 1] < offset ? half : 0;
    length -= half;
  }
  return static_cast<size_t>(first - offsets_.data()) + (length == 1 && *first < offset ? 1 : 0);
}

size_t Extents::index_at(int64_t offset) const {
  const size_t after = first_at_or_after(offset + 1);
  return after == 0 ? count() : after - 1;
}

void Extents::add(size_t index, int64_t offset, int64_t size) {
  const auto at = static_cast<std::ptrdiff_t>(index);
  offsets_.insert(offsets_.begin() + at, offset);
  sizes_.insert(sizes_.begin() + at, static_cast<int32_t>(size));
  if (by_size_) {
    by_size_->insert({size, offset});
  } else if (count() > kMostScanned) {
    index_by_size();
  }
}

void Extents::replace(size_t index, int64_t offset, int64_t size) {
  if (by_size_) {
    by_size_->erase({sizes_[index], offsets_[index]});
    by_size_->insert({size, offset});
  }
  offsets_[index] = offset;
  sizes_[index] = static_cast<int32_t>(size);
}

void Extents::remove(size_t index) {
  if (by_size_) by_size_->erase({sizes_[index], offsets_[index]});
  const auto at = static_cast<std::ptrdiff_t>(index);
  offsets_.erase(offsets_.begin() + at);
  sizes_.erase(sizes_.begin() + at);
}

void Extents::index_by_size() {
  by_size_.emplace();
  for (size_t i = 0; i < count(); ++i) by_size_->insert({sizes_[i], offsets_[i]});
}

void Extents::insert(int64_t offset, int64_t size) {
  assert(size > 0 && size <= kLargest);
  const size_t at = first_at_or_after(offset);
  const bool joins_next = at < count() && offsets_[at] == offset + size && sizes_[at] <= kLargest - size;
  const int64_t joined = size + (joins_next ? sizes_[at] : 0);
  const bool joins_previous =
      at > 0 && offsets_[at - 1] + sizes_[at - 1] == offset && sizes_[at - 1] <= kLargest - joined;
  if (joins_previous) {
    if (joins_next) remove(at);
    replace(at - 1, offsets_[at - 1], sizes_[at - 1] + joined);
  } else if (joins_next) {
    replace(at, offset, joined);
  } else {
    add(at, offset, size);
  }
}

int64_t Extents::best_fit(int64_t size) const {
  if (size > kLargest) return kNone;
  if (by_size_) {
    const FreeBlock* found = by_size_->best_fit(size);
    return found == nullptr ? kNone : found->address;
  }
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
  const int64_t before = offset - offsets_[index];
  const int64_t after = sizes_[index] - before - size;
  if (before > 0) {
    replace(index, offsets_[index], before);
    if (after > 0) add(index + 1, offset + size, after);
  } else if (after > 0) {
    replace(index, offset + size, after);
  } else {
    remove(index);
  }
}

void Extents::drain_into(Extents& other) {
  for (size_t i = 0; i < count(); ++i) other.insert(offsets_[i], sizes_[i]);
  *this = {};
}

}  // namespace plimsoll
