#include "plimsoll/memory/heap.h"

#include <algorithm>
#include <bit>
#include <cassert>

#include "plimsoll/base/bytes.h"

namespace plimsoll {
namespace {

// Beyond so many views the oldest unused ones go, and beyond so many pieces in them: each piece is a mapping of its
// own, and Linux gives a process 65530.
constexpr size_t kMostAliases = 512;
constexpr size_t kPiecesPerAlias = 32;
constexpr int64_t kAcrossSteps = 16;  // a block that old outlived its step, it is not this step's own

}  // namespace

Heap::Heap(PageLedger& pages, StreamOrder& order)
    : pages_(pages),
      order_(order),
      per_page_(pages.page_bytes() / kGranule),
      page_shift_(std::countr_zero(static_cast<uint64_t>(per_page_))),
      main_range_(pages.source().reserve(pages.limit_pages() * pages.page_bytes())) {}

Heap::~Heap() {
  drop_unused_aliases(0);
  for (const Piece& piece : main_range_pieces()) give_up(piece);
  pages_.source().release(main_range_, pages_.limit_pages() * pages_.page_bytes());
}

Extents& Heap::free_of(Stream stream) {
  const auto index = static_cast<size_t>(stream);
  if (index >= free_.size()) free_.resize(index + 1);
  return free_[index];
}

Heap::Span Heap::span_at(HeapPlace place) {
  if (place.alias == HeapPlace::kMainRange) return {.data = main_range_ + place.offset * kGranule, .place = place};
  return {.data = aliases_.at(place.alias).data, .place = place};
}

std::optional<Heap::Span> Heap::allocate(int64_t bytes, Stream stream, int64_t live_bytes, const Allowance& allowance) {
  const int64_t size = bytes / kGranule;
  if ((to_pages(size) + 1) * per_page_ > Extents::kLargest)
    return std::nullopt;  // grown by a page, one extent holds it
  Extents& free = free_of(stream);
  PlacementHistory::Lookup look_up = memory_.look_up(size, live_bytes);
  auto place = look_up.next();
  while (place && !take(*place, size, free)) place = look_up.next();
  const bool found_before = place.has_value();
  // Where the tensor of the last step is still held, a place of its own keeps the two from pushing the others around.
  if (!place && look_up.alive_age() >= kAcrossSteps &&
      pages_.resident_pages() + to_pages(size) <= allowance.roomy_pages) {
    place = take_new_pages(size, free);
  }
  if (!place) place = find(size, stream, allowance);
  if (!place) return std::nullopt;
  Span span = span_at(*place);
  span.ticket = memory_.remember(look_up, size, *place, found_before);
  return span;
}

void Heap::free(const Span& span, int64_t bytes, Stream stream) {
  memory_.freed(span.ticket);
  Extents& free = free_of(stream);
  if (span.place.alias == HeapPlace::kMainRange) {
    free.insert(span.place.offset, bytes / kGranule);
    return;
  }
  Alias& alias = aliases_.at(span.place.alias);
  int64_t left = alias.used_pages;
  for (const Piece& piece : alias.pieces) {
    const int64_t count = std::min(left, piece.count);
    if (count > 0) free.insert(piece.page * per_page_, count * per_page_);
    left -= count;
  }
  alias.used_pages = 0;
}

bool Heap::take(HeapPlace place, int64_t size, Extents& free) {
  if (place.alias != HeapPlace::kMainRange) return take_alias(place.alias, size, free);
  if (!free.contains(place.offset, size)) return false;
  free.carve(place.offset, size);
  return true;
}

// The first pages of the view, when all of them are free at home.
bool Heap::take_alias(int32_t id, int64_t size, Extents& free) {
  const auto found = aliases_.find(id);
  if (found == aliases_.end()) return false;
  Alias& alias = found->second;
  const int64_t needed = to_pages(size);
  if (alias.used_pages > 0 || alias.pages < needed) return false;
  int64_t left = needed;
  for (const Piece& piece : alias.pieces) {
    const int64_t count = std::min(left, piece.count);
    if (count > 0 && !free.contains(piece.page * per_page_, count * per_page_)) return false;
    left -= count;
  }
  left = needed;
  for (const Piece& piece : alias.pieces) {
    const int64_t count = std::min(left, piece.count);
    if (count > 0) free.carve(piece.page * per_page_, count * per_page_);
    left -= count;
  }
  alias.used_pages = needed;
  return true;
}

std::optional<HeapPlace> Heap::take_any_alias(int64_t size, Extents& free) {
  if (free_pages(free) < to_pages(size)) return std::nullopt;
  for (const auto& entry : aliases_) {
    if (take_alias(entry.first, size, free)) return HeapPlace{.alias = entry.first};
  }
  return std::nullopt;
}

std::optional<HeapPlace> Heap::find(int64_t size, Stream stream, const Allowance& allowance) {
  Extents& free = free_of(stream);
  do {
    const int64_t offset = free.best_fit(size);
    if (offset != Extents::kNone) {
      free.carve(offset, size);
      return HeapPlace{.offset = offset};
    }
    if (const auto place = take_any_alias(size, free)) return place;
  } while (adopt_other_streams(stream));
  return make_room(size, free, allowance);
}

bool Heap::adopt_other_streams(Stream stream) {
  bool adopted = false;
  for (size_t other = 0; other < free_.size(); ++other) {
    if (other == static_cast<size_t>(stream) || free_[other].count() == 0) continue;
    order_.wait(stream, static_cast<Stream>(other));
    free_[other].drain_into(free_of(stream));
    adopted = true;
  }
  return adopted;
}

// Pages that home must grow by until its last free extent holds `size`.
int64_t Heap::growth_for(int64_t size, const Extents& free) const {
  const size_t count = free.count();
  const bool at_end = count > 0 && free.offset(count - 1) + free.size(count - 1) == end_page_ * per_page_;
  return to_pages(size - (at_end ? free.size(count - 1) : 0));
}

Heap::Piece Heap::whole_pages(const Extents& free, size_t extent) const {
  const int64_t first = to_pages(free.offset(extent));
  const int64_t end = (free.offset(extent) + free.size(extent)) >> page_shift_;
  return {first, std::max<int64_t>(0, end - first)};
}

std::vector<Heap::Piece> Heap::free_pieces(const Extents& free) const {
  std::vector<Piece> pieces;
  for (size_t i = 0; i < free.count(); ++i) {
    const Piece piece = whole_pages(free, i);
    if (piece.count > 0) pieces.push_back(piece);
  }
  return pieces;
}

int64_t Heap::free_pages(const Extents& free) const {
  int64_t pages = 0;
  for (size_t i = 0; i < free.count(); ++i) pages += whole_pages(free, i).count;
  return pages;
}

std::optional<HeapPlace> Heap::make_room(int64_t size, Extents& free, const Allowance& allowance) {
  const int64_t growth = growth_for(size, free);
  const int64_t missing = std::max<int64_t>(0, to_pages(size) - free_pages(free));  // if the block were stitched
  const bool lean = pages_.resident_pages() + growth <= allowance.lean_pages;
  if ((lean || missing >= growth) && growth <= room_at_end() && try_grow(growth, free)) {
    const HeapPlace place{.offset = free.best_fit(size)};
    free.carve(place.offset, size);
    return place;
  }
  if (!try_grow(missing, free)) return std::nullopt;
  return stitch(size, free);
}

std::optional<HeapPlace> Heap::take_new_pages(int64_t size, Extents& free) {
  const HeapPlace place{.offset = end_page_ * per_page_};
  if (to_pages(size) > room_at_end() || !try_grow(to_pages(size), free)) return std::nullopt;
  free.carve(place.offset, size);
  return place;
}

// Shows whole free pages side by side, the largest pieces first so that they are few.
HeapPlace Heap::stitch(int64_t size, Extents& free) {
  std::vector<Piece> pieces = free_pieces(free);
  std::stable_sort(pieces.begin(), pieces.end(), [](const Piece& a, const Piece& b) { return a.count > b.count; });
  drop_unused_aliases(kMostAliases);
  Alias alias;
  alias.reserved_pages = alias.pages = alias.used_pages = to_pages(size);
  std::vector<PageId> ids;
  for (int64_t left = alias.pages; const Piece& piece : pieces) {
    const int64_t count = std::min(left, piece.count);
    if (count == 0) break;
    alias.pieces.push_back({piece.page, count});
    ids.insert(ids.end(), page_ids_.begin() + piece.page, page_ids_.begin() + piece.page + count);
    left -= count;
  }
  alias.data = pages_.source().reserve(alias.pages * pages_.page_bytes());
  try {
    pages_.source().map(alias.data, ids);
  } catch (...) {
    pages_.source().release(alias.data, alias.pages * pages_.page_bytes());
    throw;
  }
  for (const Piece& piece : alias.pieces) free.carve(piece.page * per_page_, piece.count * per_page_);
  stats_.remapped_pages += alias.pages;
  ++stats_.remapping_allocations;
  alias_pieces_ += alias.pieces.size();
  aliases_.emplace(next_alias_, std::move(alias));
  return HeapPlace{.alias = next_alias_++};
}

// Where `pages` new pages go: at the end of home, then in the holes.
std::vector<Heap::Piece> Heap::places_to_grow(int64_t pages) const {
  std::vector<Piece> places;
  const int64_t at_end = std::min(pages, room_at_end());
  if (at_end > 0) places.push_back({end_page_, at_end});
  for (int64_t i = 0; i < pages - at_end; ++i) {
    places.push_back({holes_[holes_.size() - 1 - static_cast<size_t>(i)], 1});
  }
  return places;
}

bool Heap::try_grow(int64_t pages, Extents& free) {
  if (pages == 0) return true;
  if (pages > pages_.left_pages()) return false;
  const std::vector<Piece> places = places_to_grow(pages);
  std::vector<PageId> ids(static_cast<size_t>(pages));
  if (!pages_.try_create(ids)) return false;
  map_main_range(places, ids);
  const int64_t at_end = std::min(pages, room_at_end());
  end_page_ += at_end;
  holes_.resize(holes_.size() - static_cast<size_t>(pages - at_end));
  page_ids_.resize(static_cast<size_t>(end_page_));
  for (auto id = ids.begin(); const Piece& place : places) {
    std::copy_n(id, place.count, page_ids_.begin() + place.page);
    free.insert(place.page * per_page_, place.count * per_page_);
    id += place.count;
  }
  return true;
}

// All of them or, with an exception, none, and then the pages are gone too.
void Heap::map_main_range(const std::vector<Piece>& places, std::span<const PageId> ids) {
  size_t mapped = 0;
  try {
    for (size_t first = 0; const Piece& place : places) {
      pages_.source().map(main_range_ + place.page * pages_.page_bytes(),
                          ids.subspan(first, static_cast<size_t>(place.count)));
      first += static_cast<size_t>(place.count);
      ++mapped;
    }
  } catch (...) {
    for (size_t i = 0; i < mapped; ++i) {
      pages_.source().unmap(main_range_ + places[i].page * pages_.page_bytes(), places[i].count);
    }
    pages_.destroy(ids);
    throw;
  }
}

// Drops some more than it must when it drops any: each time it waits for the device.
void Heap::drop_unused_aliases(size_t keep) {
  const auto few = [&](size_t views) { return aliases_.size() <= views && alias_pieces_ <= views * kPiecesPerAlias; };
  if (few(keep)) return;
  order_.synchronize();
  for (auto alias = aliases_.begin(); alias != aliases_.end() && !few(keep - keep / 4);) {
    if (alias->second.used_pages > 0) {
      ++alias;
      continue;
    }
    pages_.source().unmap(alias->second.data, alias->second.pages);
    pages_.source().release(alias->second.data, alias->second.reserved_pages * pages_.page_bytes());
    alias_pieces_ -= alias->second.pieces.size();
    alias = aliases_.erase(alias);
  }
}

// Unmaps what the view shows beyond its block: those pages may be free at home, and gone after a trim.
void Heap::cut_to_use(Alias& alias) {
  if (alias.pages == alias.used_pages) return;
  pages_.source().unmap(alias.data + alias.used_pages * pages_.page_bytes(), alias.pages - alias.used_pages);
  alias.pages = alias.used_pages;
  int64_t left = alias.pages;
  for (Piece& piece : alias.pieces) {
    piece.count = std::min(left, piece.count);
    left -= piece.count;
  }
  alias_pieces_ -= std::erase_if(alias.pieces, [](const Piece& piece) { return piece.count == 0; });
}

std::vector<Heap::Piece> Heap::main_range_pieces() const {
  std::vector<Piece> pieces;
  int64_t page = 0;
  for (const int64_t hole : holes_) {
    if (hole > page) pieces.push_back({page, hole - page});
    page = hole + 1;
  }
  if (end_page_ > page) pieces.push_back({page, end_page_ - page});
  return pieces;
}

// Gives pages of home back to the source.
void Heap::give_up(const Piece& piece) {
  pages_.source().unmap(main_range_ + piece.page * pages_.page_bytes(), piece.count);
  pages_.destroy(std::span(page_ids_).subspan(static_cast<size_t>(piece.page), static_cast<size_t>(piece.count)));
}

int64_t Heap::trim() {
  drop_unused_aliases(0);
  order_.synchronize();
  for (auto& entry : aliases_) cut_to_use(entry.second);
  Extents& free = free_of(0);  // nothing runs any more: what two streams have of one page can go together
  for (size_t stream = 1; stream < free_.size(); ++stream) free_[stream].drain_into(free);
  int64_t trimmed = 0;
  for (const Piece& piece : free_pieces(free)) {
    free.carve(piece.page * per_page_, piece.count * per_page_);
    give_up(piece);
    for (int64_t page = piece.page; page < piece.page + piece.count; ++page) holes_.push_back(page);
    trimmed += piece.count;
  }
  std::sort(holes_.begin(), holes_.end());
  while (!holes_.empty() && holes_.back() == end_page_ - 1) {  // what is free at the end is no hole, just not grown yet
    holes_.pop_back();
    --end_page_;
  }
  return trimmed * pages_.page_bytes();
}

int64_t Heap::largest_free_bytes() const {
  int64_t largest = 0;
  for (const Extents& free : free_) {
    largest = std::max({largest, free.largest() * kGranule, free_pages(free) * pages_.page_bytes()});
  }
  return largest;
}

}  // namespace plimsoll
