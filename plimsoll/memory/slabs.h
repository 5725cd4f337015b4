// The small blocks of a pool, kept apart so that none of them pins a page that a large block could use. A page is cut
// into slabs, a slab into slots of one size and one stream; a block never crosses a page. Allocating and freeing is a
// bit operation. Not thread-safe.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <vector>

#include "plimsoll/memory/page_ledger.h"
#include "plimsoll/memory/stream.h"

namespace plimsoll {

class Slabs {
 public:
  struct Slot {
    std::byte* data = nullptr;
    uint32_t slab = 0;
    uint32_t index = 0;
  };

  Slabs(PageLedger& pages, StreamOrder& order);
  ~Slabs();
  Slabs(const Slabs&) = delete;
  Slabs& operator=(const Slabs&) = delete;

  int64_t largest_bytes() const { return slab_bytes_ / 4; }  // of a block; larger ones belong in the heap

  // A slot of at least `bytes`, or nothing when there are no pages left.
  std::optional<Slot> allocate(int64_t bytes, Stream stream);
  void free(const Slot& slot);

  int64_t trim();  // gives pages without a block back to the source; returns the bytes

 private:
  static constexpr int64_t kGranule = 256;
  static constexpr uint32_t kNone = UINT32_MAX;
  static constexpr Stream kNobody = -1;

  struct Slab {
    std::array<uint64_t, 4> free_slots{};  // a bit each
    uint32_t free_count = 0;
    uint32_t size_class = 0;
    Stream stream = kNobody;    // that it serves, or served last
    uint32_t previous = kNone;  // in the list of slabs of its class and stream that have a free slot
    uint32_t next = kNone;
  };
  struct Page {
    uint64_t unused_slabs = 0;  // a bit each
    PageId id = 0;
    bool present = false;
  };
  struct SizeClass {
    int64_t bytes = 0;
    uint32_t slots = 0;
  };

  uint32_t& list_of(uint32_t size_class, Stream stream);
  void link(uint32_t slab);
  void unlink(uint32_t slab);
  std::optional<uint32_t> open_slab(uint32_t size_class, Stream stream);
  std::optional<size_t> page_with_room();
  std::optional<size_t> new_page();
  void close_slab(uint32_t slab);

  PageLedger& pages_;
  StreamOrder& order_;
  int64_t slab_bytes_;
  uint32_t slabs_per_page_;
  std::byte* range_;
  std::vector<SizeClass> classes_;
  std::vector<uint8_t> class_of_;             // by granules, rounded up
  std::vector<Page> page_;                    // of the range, in order
  std::vector<Slab> slab_;                    // slab i is at range_ + i * slab_bytes_
  std::vector<std::vector<uint32_t>> lists_;  // by stream, by class: the first slab with a free slot
  size_t first_with_room_ = 0;                // no page before it has an unused slab
};

}  // namespace plimsoll
