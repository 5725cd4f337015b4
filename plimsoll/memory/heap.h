// The large blocks of a pool. Home is one contiguous range that grows page by page; blocks are placed in it best fit,
// or where the same moment of the last step had them (placement_history.h). When free memory is enough but in pieces,
// the whole free pages among it are shown a second time, side by side, at an address of their own: a view. The block
// lives in the view while its pages stay taken at home; afterwards the view is kept, and the next step finds it ready.
// So nothing is copied, no page is lost to fragmentation, and a loop that repeats maps nothing after its second round.
//
// Sizes and offsets inside are in granules; streams as in pool.h. Not thread-safe.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <vector>

#include "plimsoll/memory/extents.h"
#include "plimsoll/memory/page_ledger.h"
#include "plimsoll/memory/placement_history.h"
#include "plimsoll/memory/stream.h"

namespace plimsoll {

class Heap {
 public:
  static constexpr int64_t kGranule = 256;  // bytes; the smallest block and every block's alignment

  struct Span {
    std::byte* data = nullptr;
    HeapPlace place;
    PlacementHistory::Ticket ticket = {};
  };

  // How many pages the pool may hold without being wasteful: `lean` for growth in general, `roomy` for the tensors
  // that outlive their step. Above that a heap grows only when free pages do not do.
  struct Allowance {
    int64_t lean_pages = 0;
    int64_t roomy_pages = 0;
  };

  struct Stats {
    int64_t remapped_pages = 0;         // mapped into views
    int64_t remapping_allocations = 0;  // that made a view
  };

  Heap(PageLedger& pages, StreamOrder& order);
  ~Heap();
  Heap(const Heap&) = delete;
  Heap& operator=(const Heap&) = delete;

  const Stats& stats() const { return stats_; }

  // A block of `bytes` (a multiple of the granule), or nothing when the ledger has too few pages. `live_bytes` is what
  // the pool's callers hold now.
  std::optional<Span> allocate(int64_t bytes, Stream stream, int64_t live_bytes, const Allowance& allowance);
  void free(const Span& span, int64_t bytes, Stream stream);

  // Gives all pages that hold no block back to the source, and drops the views that are not in use. Returns the bytes.
  int64_t trim();

  int64_t largest_free_bytes() const;  // in one request: whole free pages together count as one piece

 private:
  struct Piece {
    int64_t page = 0;
    int64_t count = 0;
  };
  struct Alias {
    std::byte* data = nullptr;
    std::vector<Piece> pieces;   // of home, in order
    int64_t reserved_pages = 0;  // of address space
    int64_t pages = 0;           // mapped, from the first on
    int64_t used_pages = 0;      // of the block in it, from the first on; 0: nobody's
  };

  Extents& free_of(Stream stream);
  int64_t to_pages(int64_t granules) const { return (granules + per_page_ - 1) >> page_shift_; }
  Span span_at(HeapPlace place);

  bool take(HeapPlace place, int64_t size, Extents& free);
  bool take_alias(int32_t id, int64_t size, Extents& free);
  std::optional<HeapPlace> take_any_alias(int64_t size, Extents& free);
  std::optional<HeapPlace> find(int64_t size, Stream stream, const Allowance& allowance);
  std::optional<HeapPlace> make_room(int64_t size, Extents& free, const Allowance& allowance);
  HeapPlace stitch(int64_t size, Extents& free);
  bool adopt_other_streams(Stream stream);
  int64_t room_at_end() const { return pages_.limit_pages() - end_page_; }
  std::vector<Piece> places_to_grow(int64_t pages) const;
  bool try_grow(int64_t pages, Extents& free);  // all or, when there are too few, none
  std::optional<HeapPlace> take_new_pages(int64_t size, Extents& free);
  void map_main_range(const std::vector<Piece>& places, std::span<const PageId> ids);
  int64_t growth_for(int64_t size, const Extents& free) const;
  Piece whole_pages(const Extents& free, size_t extent) const;
  std::vector<Piece> free_pieces(const Extents& free) const;
  int64_t free_pages(const Extents& free) const;  // that are whole
  std::vector<Piece> main_range_pieces() const;   // all of home but the holes
  void drop_unused_aliases(size_t keep);
  void cut_to_use(Alias& alias);
  void give_up(const Piece& piece);

  PageLedger& pages_;
  StreamOrder& order_;
  int64_t per_page_;  // granules
  int page_shift_;    // its logarithm: pages are powers of two, and divisions slow
  std::byte* main_range_;
  int64_t end_page_ = 0;              // home is [0, end_page_), less the holes
  std::vector<PageId> page_ids_;      // of home, by page
  std::vector<int64_t> holes_;        // pages of home that trim took away, in order
  std::vector<Extents> free_;         // by stream
  std::map<int32_t, Alias> aliases_;  // by age: the oldest that fits is taken, so that a repeating step repeats
  size_t alias_pieces_ = 0;           // of all views
  int32_t next_alias_ = 0;
  PlacementHistory memory_;
  Stats stats_;
};

}  // namespace plimsoll
