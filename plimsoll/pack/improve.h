// Drives the complete search: from a packing and a bound towards each other.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "plimsoll/pack/greedy.h"
#include "plimsoll/pack/instance.h"
#include "plimsoll/pack/portfolio.h"
#include "plimsoll/pack/search.h"

namespace plimsoll::pack {

// Buffers. The tables of the complete search grow with the square of their number.
inline constexpr int32_t kMostForSearch = 5000;

// What is known of an instance: a packing, and a peak below which there is none.
struct Bracket {
  Placement best;
  int64_t lower = 0;
  Span refuted = {};            // the sections that do not fit in less, when the complete search has shown it
  int64_t nodes = 0;            // spent on it
  std::optional<Run> run = {};  // that found the best packing, with the nodes it took

  bool closed() const { return best.peak <= lower; }
};

struct Effort {
  Limits limits;
  int threads = 1;
  uint64_t seed = 1;
  Inference inference;
  std::span<const Run> runs = {};  // runs that packed something similar, the shortest first
};

// Narrows the bracket until it is closed, the best peak is at most `enough`, or the limits are reached. With
// `only_enough`, only the question whether `enough` can be had is asked, and its denial ends it too.
void improve(const Instance& instance, Bracket& bracket, int64_t enough, bool only_enough, const Effort& effort);

}  // namespace plimsoll::pack
