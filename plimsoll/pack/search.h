// The complete search: a depth-first walk over states, each step placing a buffer at its resting offset or ruling that
// offset out. It either finds a packing of the capacity, or proves that none exists, or stops at its limit of nodes and
// can be run again in another order: what was proven to fail stays known.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <span>
#include <vector>

#include "plimsoll/pack/instance.h"
#include "plimsoll/pack/nogoods.h"
#include "plimsoll/pack/pack.h"
#include "plimsoll/pack/state.h"

namespace plimsoll::pack {

enum class Verdict : uint8_t { found, infeasible, stopped };

// When to give up. `cancelled` may be set from another thread.
struct Limits {
  int64_t nodes = INT64_MAX;
  std::chrono::steady_clock::time_point deadline = std::chrono::steady_clock::time_point::max();
  const std::atomic<bool>* cancelled = nullptr;
};

class Search {
 public:
  Search(const Instance& instance, const Inference& inference);

  // Starts from nothing. `ranks` breaks ties: of equals, the buffer with the smallest rank is tried first.
  Verdict run(int64_t capacity, Strategy strategy, std::span<const int32_t> ranks, const Limits& limits);

  const std::vector<int64_t>& offsets() const { return offsets_; }  // after Verdict::found, in units
  int64_t nodes() const { return nodes_; }                          // of all runs

 private:
  struct Decision {
    int32_t buffer;
    Span part;  // the sections connected with the buffer by unplaced ones: whatever it can affect
    size_t mark;
    uint64_t key;  // of the state of that part, before
  };

  bool descend(int32_t buffer);
  bool backtrack(Span failed);
  bool out_of_limits(const Limits& limits) const;
  bool finished() const { return state_.unplaced().empty(); }

  int32_t choose() const;
  int32_t choose_lowest() const;
  int32_t choose_forced(Span range) const;
  int32_t choose_in_section(int32_t section) const;
  template <typename Accept>
  int32_t first_next(int32_t section, Accept accept) const;
  template <typename Accept>
  int32_t choose_tightest(Span range, Accept accept) const;
  bool before(int32_t a, int32_t b) const;
  bool tighter(int32_t a, int32_t b) const;
  int32_t first_unplaced() const;
  Span part_of(int32_t buffer) const;

  State state_;
  Nogoods nogoods_;
  Inference inference_;
  Strategy strategy_ = Strategy::lowest;
  std::span<const int32_t> ranks_;
  std::vector<Decision> decisions_;
  std::vector<int64_t> offsets_;
  int64_t nodes_ = 0;
  int64_t capacity_ = -1;
};

}  // namespace plimsoll::pack
