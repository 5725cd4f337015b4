// A Pool hands out memory of one device under a hard limit, for work that is not planned ahead. Blocks never move;
// free pages are shown where they are needed (heap.h), so a request fails only when live bytes plus the request exceed
// the limit, page rounding aside: every block counts with the pages it touches.
//
// Thread-safe unless told that calls are serialised. Blocks belong to the stream that asked for them: memory freed on
// one stream is handed to another only behind an event (stream.h). Every block must be returned before the pool dies.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "plimsoll/base/budget.h"
#include "plimsoll/base/oom.h"
#include "plimsoll/base/spin_lock.h"
#include "plimsoll/memory/heap.h"
#include "plimsoll/memory/page_source.h"
#include "plimsoll/memory/slabs.h"
#include "plimsoll/memory/stream.h"
#include "plimsoll/trace/recorder.h"

namespace plimsoll {

// Memory that a pool handed out. A plain handle: copying it copies nothing, and it is good for one `free`.
struct Block {
  std::byte* data = nullptr;
  int64_t bytes = 0;  // at least what was asked for
  uint32_t id = 0;
  uint32_t generation = 0;
};

// What a block is asked for; everything but the bytes is for records and reports.
struct Request {
  int64_t bytes = 0;
  uint32_t tag = 0;  // from Pool::tag
  Stream stream = 0;
  const TensorSpec* spec = nullptr;
  std::string_view op = {};
};

struct PoolStats {
  int64_t live_bytes = 0;  // of blocks handed out, as rounded to the granule
  int64_t live_blocks = 0;
  int64_t live_peak_bytes = 0;
  int64_t reserved_bytes = 0;  // pages held
  int64_t reserved_peak_bytes = 0;
  int64_t pages_committed = 0;  // ever created
  int64_t pages_remapped = 0;   // free pages shown at another address
  int64_t remapping_allocations = 0;
};

// What blocks of one tag take.
struct LiveTag {
  Category category = Category::other;
  std::string name;
  int64_t bytes = 0;
  int64_t blocks = 0;
};

class Pool {
 public:
  static constexpr int64_t kAlignment = 256;

  enum class Calls { from_any_thread, serialised };  // serialised: the caller holds a lock of its own around each

  // `order` may be left out on the host. The sources and the recorder must outlive the pool. ArgumentError for a
  // budget below one page.
  Pool(PageSource& pages, Budget budget, trace::Recorder& recorder, StreamOrder* order = nullptr,
       Calls calls = Calls::from_any_thread);
  ~Pool();
  Pool(const Pool&) = delete;
  Pool& operator=(const Pool&) = delete;

  // The tag to allocate with: once per use, not per block.
  uint32_t tag(Category category, std::string_view name) { return recorder_.intern(category, name); }

  // At least request.bytes, aligned to kAlignment. Zero bytes is a block without memory. Throws ResourceExhausted with
  // the whole report; the pool is as usable as before.
  Block allocate(const Request& request);
  Block allocate(int64_t bytes) { return allocate(Request{.bytes = bytes}); }

  // ArgumentError for a block that is not this pool's or was freed already. `stream` is where it was used last.
  void free(const Block& block, Stream stream);
  void free(const Block& block);  // on the stream that asked for it

  // `reclaim(bytes)` is called, without the pool's lock, before a request fails; it frees what it can do without
  // (caches, spillable tensors) and returns how many bytes. In the order added.
  void add_reclaim(std::string name, std::function<int64_t(int64_t bytes)> reclaim);

  int64_t trim();  // gives free pages back to the source; returns the bytes

  PoolStats stats() const;
  std::vector<LiveTag> live_by_tag() const;  // of tags with live blocks, in no order; looks at every block
  void reset_peak();
  const Budget& budget() const { return budget_; }

 private:
  struct Entry {  // of a block, by its id
    int64_t bytes = 0;
    uint32_t generation = 0;
    uint32_t tag = 0;
    Stream stream = 0;
    enum class Kind : uint8_t { unused, slab, heap } kind = Kind::unused;
    Slabs::Slot slot = {};
    Heap::Span span = {};
  };
  // Blocks freed a moment ago, still whole: the next request of the same size takes one without a search.
  struct Warm {
    struct Spare {
      int64_t bytes = 0;
      uint32_t id = 0;
      Stream stream = 0;
    };
    static constexpr size_t kMost = 8;
    std::array<Spare, kMost> blocks{};  // the latest last
    size_t count = 0;
  };
  class Lock {
   public:
    explicit Lock(Calls calls) : locks_(calls == Calls::from_any_thread) {}
    void lock() {
      if (locks_) lock_.lock();
    }
    void unlock() {
      if (locks_) lock_.unlock();
    }

   private:
    SpinLock lock_;
    bool locks_;
  };
  struct Reclaim {
    std::string name;
    std::function<int64_t(int64_t)> run;
  };

  bool try_allocate(int64_t bytes, const Request& request, Block& block);
  // The number of an entry, or kNone: an optional would be made of two stores and read by one load, which waits.
  static constexpr uint32_t kNone = UINT32_MAX;
  uint32_t take(int64_t bytes, const Request& request);
  uint32_t take_warm(int64_t bytes, Stream stream);
  uint32_t take_cold(int64_t bytes, const Request& request);
  void cool();
  void give_back(Entry& entry);
  static std::byte* data_of(const Entry& entry) {
    return entry.kind == Entry::Kind::slab ? entry.slot.data : entry.span.data;
  }
  void add_entry();
  bool place(Entry& entry, int64_t bytes, Stream stream);
  Entry& entry_of(const Block& block);
  void free_locked(const Block& block, Entry& entry, Stream stream);
  std::vector<Reclaim> reclaims() const;
  OomReport report(const Request& request) const;
  void suggest(OomReport& report) const;

  Budget budget_;
  trace::Recorder& recorder_;
  HostOrder host_order_;
  StreamOrder& order_;
  mutable Lock lock_;  // guards everything below
  PageLedger pages_;
  Slabs slabs_;
  Heap heap_;
  std::vector<Entry> entries_;
  std::vector<uint32_t> unused_entries_;
  Warm warm_;
  int64_t live_bytes_ = 0;
  int64_t live_blocks_ = 0;
  int64_t live_peak_bytes_ = 0;  // since reset_peak
  int64_t ever_peak_bytes_ = 0;  // what the allowance of pages goes by
  std::vector<Reclaim> reclaims_;
};

}  // namespace plimsoll
