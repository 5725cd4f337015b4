// Packings made in one pass over the buffers, several orders and the best of them: near-linear where there are many
// buffers. Offsets and peaks are in units of the instance.
#pragma once

#include <chrono>
#include <cstdint>
#include <span>
#include <vector>

#include "plimsoll/pack/instance.h"

namespace plimsoll::pack {

struct Placement {
  std::vector<int64_t> offsets = {};  // empty: none
  int64_t peak = INT64_MAX;
};

// One pass, the cheapest that is often perfect: the longest-lived first, each on top of all that it overlaps. Fixed
// offsets are kept; they must not collide.
Placement pack_at_once(const Instance& instance);

// Each buffer in turn on top of all that it overlaps: no holes are filled, but it takes logarithmic time. In the order
// of the offsets of a packing nothing ends up higher than it was there. Fixed offsets are kept, as above.
Placement stack_up(const Instance& instance, std::span<const int32_t> order);

// The best of `start` and several orders; stops at the first whose peak is at most `target`, and at the deadline.
Placement pack_greedily(const Instance& instance, int64_t target, Placement start,
                        std::chrono::steady_clock::time_point deadline);

// Each buffer in turn at its lowest free offset, holes included. O(n * those that live with it). Gives up, without
// offsets, as soon as the peak reaches `limit`, and at the deadline.
Placement first_fit(const Instance& instance, std::span<const int32_t> order, int64_t limit = INT64_MAX,
                    std::chrono::steady_clock::time_point deadline = std::chrono::steady_clock::time_point::max());

}  // namespace plimsoll::pack
