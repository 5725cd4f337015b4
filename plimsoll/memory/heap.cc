#include "plimsoll/memory/heap.h"

#include <algorithm>
#include <bit>
#include <cassert>

#include "plimsoll/base/bytes.h"

namespace plimsoll {
namespace {

// Beyond so many views the oldest unused ones go, and beyond so many pieces in them: each piece is a mapping of its
// own, and Linux gives a process 65530.
constexpr size_t kMostViews = 512;
constexpr size_t kPiecesPerView = 32;
constexpr int64_t kAcrossSteps = 16;  // a block that old outlived its step, it is not this step's own

}  // namespace

Heap::Heap(PageLedger& pages, StreamOrder& order)
    : pages_(pages),
      order_(order),
      per_page_(pages.page_bytes() / kGranule),
      page_shift_(std::countr_zero(static_cast<uint64_t>(per_page_))),
      home_(pages.source().reserve(pages.limit_pages() * pages.page_bytes())) {}

Heap::~Heap() {
  drop_unused_views(0);
  for (const Piece& piece : home_pieces()) give_up(piece);
  pages_.source().release(home_, pages_.limit_pages() * pages_.page_bytes());
}

Extents& Heap::free_of(Stream stream) {
  const auto index = static_cast<size_t>(stream);
  if (index >= free_.size()) free_.resize(index + 1);
  return free_[index];
}

Heap::Span Heap::span_at(Spot spot) {
  if (spot.view == Spot::kHome) return {.data = home_ + spot.offset * kGranule, .spot = spot};
  return {.data = views_.at(spot.view).data, .spot = spot};
}

std::optional<Heap::Span> Heap::allocate(int64_t bytes, Stream stream, int64_t live_bytes, const Allowance& allowance) {
  const int64_t size = bytes / kGranule;
  if ((to_pages(size) + 1) * per_page_ > Extents::kLargest)
    return std::nullopt;  // grown by a page, one extent holds it
  Extents& free = free_of(stream);
  SpotMemory::Recall recall = memory_.recall(size, live_bytes);
  auto spot = recall.next();
  while (spot && !take(*spot, size, free)) spot = recall.next();
  const bool recalled = spot.has_value();
  // Where the tensor of the last step is still held, a place of its own keeps the two from pushing the others around.
  if (!spot && recall.alive_age() >= kAcrossSteps && pages_.held_pages() + to_pages(size) <= allowance.roomy_pages) {
    spot = take_new_pages(size, free);
  }
  if (!spot) spot = find(size, stream, allowance);
  if (!spot) return std::nullopt;
  Span span = span_at(*spot);
  span.ticket = memory_.remember(recall, size, *spot, recalled);
  return span;
}

void Heap::free(const Span& span, int64_t bytes, Stream stream) {
  memory_.freed(span.ticket);
  Extents& free = free_of(stream);
  if (span.spot.view == Spot::kHome) {
    free.insert(span.spot.offset, bytes / kGranule);
    return;
  }
  View& view = views_.at(span.spot.view);
  int64_t left = view.used_pages;
  for (const Piece& piece : view.pieces) {
    const int64_t count = std::min(left, piece.count);
    if (count > 0) free.insert(piece.page * per_page_, count * per_page_);
    left -= count;
  }
  view.used_pages = 0;
}

bool Heap::take(Spot spot, int64_t size, Extents& free) {
  if (spot.view != Spot::kHome) return take_view(spot.view, size, free);
  if (!free.contains(spot.offset, size)) return false;
  free.carve(spot.offset, size);
  return true;
}

// The first pages of the view, when all of them are free at home.
bool Heap::take_view(int32_t id, int64_t size, Extents& free) {
  const auto found = views_.find(id);
  if (found == views_.end()) return false;
  View& view = found->second;
  const int64_t needed = to_pages(size);
  if (view.used_pages > 0 || view.pages < needed) return false;
  int64_t left = needed;
  for (const Piece& piece : view.pieces) {
    const int64_t count = std::min(left, piece.count);
    if (count > 0 && !free.contains(piece.page * per_page_, count * per_page_)) return false;
    left -= count;
  }
  left = needed;
  for (const Piece& piece : view.pieces) {
    const int64_t count = std::min(left, piece.count);
    if (count > 0) free.carve(piece.page * per_page_, count * per_page_);
    left -= count;
  }
  view.used_pages = needed;
  return true;
}

std::optional<Spot> Heap::take_any_view(int64_t size, Extents& free) {
  if (free_pages(free) < to_pages(size)) return std::nullopt;
  for (const auto& entry : views_) {
    if (take_view(entry.first, size, free)) return Spot{.view = entry.first};
  }
  return std::nullopt;
}

std::optional<Spot> Heap::find(int64_t size, Stream stream, const Allowance& allowance) {
  Extents& free = free_of(stream);
  do {
    const int64_t offset = free.best_fit(size);
    if (offset != Extents::kNone) {
      free.carve(offset, size);
      return Spot{.offset = offset};
    }
    if (const auto spot = take_any_view(size, free)) return spot;
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

std::optional<Spot> Heap::make_room(int64_t size, Extents& free, const Allowance& allowance) {
  const int64_t growth = growth_for(size, free);
  const int64_t missing = std::max<int64_t>(0, to_pages(size) - free_pages(free));  // if the block were stitched
  const bool lean = pages_.held_pages() + growth <= allowance.lean_pages;
  if ((lean || missing >= growth) && growth <= room_at_end() && try_grow(growth, free)) {
    const Spot spot{.offset = free.best_fit(size)};
    free.carve(spot.offset, size);
    return spot;
  }
  if (!try_grow(missing, free)) return std::nullopt;
  return stitch(size, free);
}

std::optional<Spot> Heap::take_new_pages(int64_t size, Extents& free) {
  const Spot spot{.offset = end_page_ * per_page_};
  if (to_pages(size) > room_at_end() || !try_grow(to_pages(size), free)) return std::nullopt;
  free.carve(spot.offset, size);
  return spot;
}

// Shows whole free pages side by side, the largest pieces first so that they are few.
Spot Heap::stitch(int64_t size, Extents& free) {
  std::vector<Piece> pieces = free_pieces(free);
  std::stable_sort(pieces.begin(), pieces.end(), [](const Piece& a, const Piece& b) { return a.count > b.count; });
  drop_unused_views(kMostViews);
  View view;
  view.reserved_pages = view.pages = view.used_pages = to_pages(size);
  std::vector<PageId> ids;
  for (int64_t left = view.pages; const Piece& piece : pieces) {
    const int64_t count = std::min(left, piece.count);
    if (count == 0) break;
    view.pieces.push_back({piece.page, count});
    ids.insert(ids.end(), page_ids_.begin() + piece.page, page_ids_.begin() + piece.page + count);
    left -= count;
  }
  view.data = pages_.source().reserve(view.pages * pages_.page_bytes());
  try {
    pages_.source().map(view.data, ids);
  } catch (...) {
    pages_.source().release(view.data, view.pages * pages_.page_bytes());
    throw;
  }
  for (const Piece& piece : view.pieces) free.carve(piece.page * per_page_, piece.count * per_page_);
  stats_.remapped_pages += view.pages;
  ++stats_.remapping_allocations;
  view_pieces_ += view.pieces.size();
  views_.emplace(next_view_, std::move(view));
  return Spot{.view = next_view_++};
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
  map_home(places, ids);
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
void Heap::map_home(const std::vector<Piece>& places, std::span<const PageId> ids) {
  size_t mapped = 0;
  try {
    for (size_t first = 0; const Piece& place : places) {
      pages_.source().map(home_ + place.page * pages_.page_bytes(),
                          ids.subspan(first, static_cast<size_t>(place.count)));
      first += static_cast<size_t>(place.count);
      ++mapped;
    }
  } catch (...) {
    for (size_t i = 0; i < mapped; ++i) {
      pages_.source().unmap(home_ + places[i].page * pages_.page_bytes(), places[i].count);
    }
    pages_.destroy(ids);
    throw;
  }
}

// Drops some more than it must when it drops any: each time it waits for the device.
void Heap::drop_unused_views(size_t keep) {
  const auto few = [&](size_t views) { return views_.size() <= views && view_pieces_ <= views * kPiecesPerView; };
  if (few(keep)) return;
  order_.synchronize();
  for (auto view = views_.begin(); view != views_.end() && !few(keep - keep / 4);) {
    if (view->second.used_pages > 0) {
      ++view;
      continue;
    }
    pages_.source().unmap(view->second.data, view->second.pages);
    pages_.source().release(view->second.data, view->second.reserved_pages * pages_.page_bytes());
    view_pieces_ -= view->second.pieces.size();
    view = views_.erase(view);
  }
}

// Unmaps what the view shows beyond its block: those pages may be free at home, and gone after a trim.
void Heap::cut_to_use(View& view) {
  if (view.pages == view.used_pages) return;
  pages_.source().unmap(view.data + view.used_pages * pages_.page_bytes(), view.pages - view.used_pages);
  view.pages = view.used_pages;
  int64_t left = view.pages;
  for (Piece& piece : view.pieces) {
    piece.count = std::min(left, piece.count);
    left -= piece.count;
  }
  view_pieces_ -= std::erase_if(view.pieces, [](const Piece& piece) { return piece.count == 0; });
}

std::vector<Heap::Piece> Heap::home_pieces() const {
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
  pages_.source().unmap(home_ + piece.page * pages_.page_bytes(), piece.count);
  pages_.destroy(std::span(page_ids_).subspan(static_cast<size_t>(piece.page), static_cast<size_t>(piece.count)));
}

int64_t Heap::trim() {
  drop_unused_views(0);
  order_.synchronize();
  for (auto& entry : views_) cut_to_use(entry.second);
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
