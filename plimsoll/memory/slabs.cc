#include "plimsoll/memory/slabs.h"

#include <algorithm>
#include <bit>
#include <cassert>

#include "plimsoll/base/bytes.h"

namespace plimsoll {
namespace {

// A 32nd of a page where pages are large, a page where they are small.
int64_t slab_bytes_for(int64_t page_bytes) { return std::max(page_bytes / 32, std::min(page_bytes, 16 * kKiB)); }

}  // namespace

Slabs::Slabs(PageLedger& pages, StreamOrder& order)
    : pages_(pages),
      order_(order),
      slab_bytes_(slab_bytes_for(pages.page_bytes())),
      slabs_per_page_(static_cast<uint32_t>(pages.page_bytes() / slab_bytes_)),
      range_(pages.source().reserve(pages.limit_pages() * pages.page_bytes())) {
  // Multiples of the granule while those are fine enough, then the sizes that fill a slab exactly. A slab has at most
  // 256 slots, a bit each.
  const int64_t smallest = std::max(kGranule, slab_bytes_ / 256);
  const int64_t fine = std::min(std::max(8 * kGranule, smallest), largest_bytes());
  for (int64_t bytes = smallest; bytes <= fine; bytes += kGranule) {
    classes_.push_back({bytes, static_cast<uint32_t>(slab_bytes_ / bytes)});
  }
  for (int64_t slots = slab_bytes_ / fine - 1; slots >= 4; --slots) {
    const int64_t bytes = align_down(slab_bytes_ / slots, kGranule);
    if (bytes > classes_.back().bytes) classes_.push_back({bytes, static_cast<uint32_t>(slots)});
  }
  for (int64_t granules = 0; granules * kGranule <= largest_bytes(); ++granules) {
    const auto fits = std::find_if(classes_.begin(), classes_.end(),
                                   [&](const SizeClass& size) { return size.bytes >= granules * kGranule; });
    class_of_.push_back(static_cast<uint8_t>(fits - classes_.begin()));
  }
}

Slabs::~Slabs() {
  for (size_t i = 0; i < page_.size(); ++i) {
    if (!page_[i].present) continue;
    pages_.source().unmap(range_ + static_cast<int64_t>(i) * pages_.page_bytes(), 1);
    pages_.destroy(std::span(&page_[i].id, 1));
  }
  pages_.source().release(range_, pages_.limit_pages() * pages_.page_bytes());
}

uint32_t& Slabs::list_of(uint32_t size_class, Stream stream) {
  const auto index = static_cast<size_t>(stream);
  while (index >= lists_.size()) lists_.emplace_back(classes_.size(), kNone);
  return lists_[index][size_class];
}

void Slabs::link(uint32_t slab) {
  uint32_t& first = list_of(slab_[slab].size_class, slab_[slab].stream);
  slab_[slab].previous = kNone;
  slab_[slab].next = first;
  if (first != kNone) slab_[first].previous = slab;
  first = slab;
}

void Slabs::unlink(uint32_t slab) {
  const Slab& self = slab_[slab];
  if (self.previous != kNone) {
    slab_[self.previous].next = self.next;
  } else {
    list_of(self.size_class, self.stream) = self.next;
  }
  if (self.next != kNone) slab_[self.next].previous = self.previous;
}

std::optional<Slabs::Slot> Slabs::allocate(int64_t bytes, Stream stream) {
  assert(bytes > 0 && bytes <= largest_bytes());
  const uint32_t size_class = class_of_[static_cast<size_t>((bytes + kGranule - 1) / kGranule)];
  uint32_t slab = list_of(size_class, stream);
  if (slab == kNone) {
    const auto opened = open_slab(size_class, stream);
    if (!opened) return std::nullopt;
    slab = *opened;
  }
  Slab& self = slab_[slab];
  size_t word = 0;
  while (self.free_slots[word] == 0) ++word;
  const auto bit = static_cast<uint32_t>(std::countr_zero(self.free_slots[word]));
  self.free_slots[word] &= self.free_slots[word] - 1;
  if (--self.free_count == 0) unlink(slab);
  const auto index = static_cast<uint32_t>(word * 64) + bit;
  return Slot{range_ + slab * slab_bytes_ + index * classes_[size_class].bytes, slab, index};
}

void Slabs::free(const Slot& slot) {
  Slab& self = slab_[slot.slab];
  self.free_slots[slot.index / 64] |= uint64_t{1} << (slot.index % 64);
  if (self.free_count++ == 0) link(slot.slab);
  // An empty slab goes back to its page, unless it is the only one that its class has room in.
  const bool only = self.previous == kNone && self.next == kNone;
  if (self.free_count == classes_[self.size_class].slots && !only) close_slab(slot.slab);
}

std::optional<size_t> Slabs::page_with_room() {
  for (; first_with_room_ < page_.size(); ++first_with_room_) {
    const Page& page = page_[first_with_room_];
    if (page.present && page.unused_slabs != 0) return first_with_room_;
  }
  return new_page();
}

std::optional<size_t> Slabs::new_page() {
  size_t place = 0;
  while (place < page_.size() && page_[place].present) ++place;
  if (place == page_.size()) {
    page_.emplace_back();
    slab_.resize(page_.size() * slabs_per_page_);
  }
  PageId id = 0;
  if (!pages_.try_create(std::span(&id, 1))) return std::nullopt;
  try {
    pages_.source().map(range_ + static_cast<int64_t>(place) * pages_.page_bytes(), std::span(&id, 1));
  } catch (...) {
    pages_.destroy(std::span(&id, 1));
    throw;
  }
  std::fill_n(slab_.begin() + static_cast<int64_t>(place * slabs_per_page_), slabs_per_page_, Slab{});
  page_[place] = {.unused_slabs = (uint64_t{1} << slabs_per_page_) - 1, .id = id, .present = true};
  first_with_room_ = place;
  return place;
}

std::optional<uint32_t> Slabs::open_slab(uint32_t size_class, Stream stream) {
  const auto page = page_with_room();
  if (!page) return std::nullopt;
  const auto within = static_cast<uint32_t>(std::countr_zero(page_[*page].unused_slabs));
  page_[*page].unused_slabs &= page_[*page].unused_slabs - 1;
  const auto slab = static_cast<uint32_t>(*page) * slabs_per_page_ + within;
  const uint32_t slots = classes_[size_class].slots;
  const Stream last = slab_[slab].stream;
  if (last != stream && last != kNobody) order_.wait(stream, last);
  slab_[slab] = {.free_count = slots, .size_class = size_class, .stream = stream};
  for (uint32_t i = 0; i < slots; ++i) slab_[slab].free_slots[i / 64] |= uint64_t{1} << (i % 64);
  link(slab);
  return slab;
}

void Slabs::close_slab(uint32_t slab) {
  unlink(slab);
  const size_t page = slab / slabs_per_page_;
  page_[page].unused_slabs |= uint64_t{1} << (slab % slabs_per_page_);
  first_with_room_ = std::min(first_with_room_, page);
}

int64_t Slabs::trim() {
  order_.synchronize();
  for (uint32_t slab = 0; slab < slab_.size(); ++slab) {
    const bool open = page_[slab / slabs_per_page_].present &&
                      (page_[slab / slabs_per_page_].unused_slabs >> (slab % slabs_per_page_) & 1) == 0;
    if (open && slab_[slab].free_count == classes_[slab_[slab].size_class].slots) close_slab(slab);
  }
  int64_t trimmed = 0;
  for (size_t i = 0; i < page_.size(); ++i) {
    if (!page_[i].present || std::popcount(page_[i].unused_slabs) != static_cast<int>(slabs_per_page_)) continue;
    pages_.source().unmap(range_ + static_cast<int64_t>(i) * pages_.page_bytes(), 1);
    pages_.destroy(std::span(&page_[i].id, 1));
    page_[i].present = false;
    trimmed += pages_.page_bytes();
  }
  first_with_room_ = 0;
  return trimmed;
}

}  // namespace plimsoll
