#include <algorithm>

#include "plimsoll/base/pickle.h"

namespace plimsoll {

uint32_t TextTable::intern(std::string_view text) {
  const uint64_t hash = mix_hash(0, std::hash<std::string_view>()(text));
  const uint32_t found = index_.find(hash, [&](uint32_t id) { return texts_[id] == text; });
  if (found != HashIndex::kAbsent) return found;
  const auto id = static_cast<uint32_t>(texts_.size());
  texts_.emplace_back(text);
  index_.insert(hash, id);
  return id;
}

std::optional<int64_t> PickleHeap::wide_integer(PickleValue value) const {
  if (!value.is(PickleKind::wide_integer) || !wides_[value.index()].fits) return std::nullopt;
  return static_cast<int64_t>(wides_[value.index()].low);
}

uint64_t PickleHeap::address(PickleValue value) const {
  if (value.is(PickleKind::integer)) return static_cast<uint64_t>(value.payload());
  return value.is(PickleKind::wide_integer) ? wides_[value.index()].low : 0;
}

std::optional<double> PickleHeap::number(PickleValue value) const {
  switch (value.kind()) {
    case PickleKind::boolean:
    case PickleKind::integer:
      return static_cast<double>(value.payload());
    case PickleKind::wide_integer:
      return wides_[value.index()].approximate;
    case PickleKind::real:
      return reals_[value.index()];
    default:
      return std::nullopt;
  }
}

std::optional<std::string_view> PickleHeap::text(PickleValue value) const {
  if (!value.is(PickleKind::text)) return std::nullopt;
  return (*texts_)[static_cast<uint32_t>(value.index())];
}

std::span<const PickleValue> PickleHeap::items(PickleValue value) const {
  if (!value.is(PickleKind::container) || type(value) >= Type::list_object) return {};
  return {pool_.data() + extent(value).first, extent(value).size};
}

PickleValue PickleHeap::find(PickleValue dict, std::string_view key) const {
  if (!is_dict(dict)) return {};
  const auto entries = items(dict);
  for (size_t i = 0; i + 1 < entries.size(); i += 2) {
    if (text(entries[i]) == key) return entries[i + 1];
  }
  return {};
}

PickleValue PickleHeap::new_container(bool is_dict) {
  containers_.push(static_cast<uint64_t>(is_dict ? Type::dict : Type::list));
  return {PickleKind::container, static_cast<int64_t>(containers_.size() - 1)};
}

PickleValue PickleHeap::new_wide(uint64_t low, double approximate, bool fits) {
  wides_.push_back({low, approximate, fits});
  return {PickleKind::wide_integer, static_cast<int64_t>(wides_.size() - 1)};
}

PickleValue PickleHeap::new_real(double real) {
  reals_.push_back(real);
  return {PickleKind::real, static_cast<int64_t>(reals_.size() - 1)};
}

bool PickleHeap::extend(PickleValue value, std::span<const PickleValue> items, PickleReducer* reducer) {
  const auto existing = object(value);
  const bool pairs = takes_pairs(value);
  if (reducer != nullptr && (existing || containers_[value.index()] >> 2 == 0)) {
    const auto reduced = pairs ? reducer->reduce_dict(existing, items) : reducer->reduce_list(existing, items);
    if (reduced) {
      const Type type = pairs ? Type::dict_object : Type::list_object;
      containers_[value.index()] = *reduced << 2 | static_cast<uint64_t>(type);
      return true;
    }
  }
  if (existing) return false;
  append(extent_of(value), items);
  return true;
}

PickleHeap::Extent& PickleHeap::extent_of(PickleValue value) {
  uint64_t& container = containers_[value.index()];
  if (container >> 2 == 0) {
    container |= extents_.size() << 2;
    extents_.emplace_back();
  }
  return extents_[container >> 2];
}

void PickleHeap::append(Extent& extent, std::span<const PickleValue> items) {
  const size_t size = extent.size + items.size();
  if (size > extent.capacity) make_room(extent, size);
  std::copy(items.begin(), items.end(), pool_.begin() + static_cast<ptrdiff_t>(extent.first + extent.size));
  extent.size = size;
}

// A container grows in place when it is the last in the pool; otherwise it moves to the end with room to spare, so
// that many small extensions cost no more than one large.
void PickleHeap::make_room(Extent& extent, size_t size) {
  const bool is_last = extent.capacity != 0 && extent.first + extent.capacity == pool_.size();
  const size_t capacity = extent.capacity == 0 || is_last ? size : std::max(size, 2 * extent.capacity);
  const size_t first = is_last ? extent.first : pool_.size();
  pool_.resize(first + capacity);
  if (!is_last) {
    std::copy_n(pool_.begin() + static_cast<ptrdiff_t>(extent.first), extent.size,
                pool_.begin() + static_cast<ptrdiff_t>(first));
  }
  extent.first = first;
  extent.capacity = capacity;
}

}  // namespace plimsoll
