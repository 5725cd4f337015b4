// Packs again from the offsets of a similar instance: first fit in their order, from the bottom and from the top; then
// windows of time around what collides; then short searches that keep a quarter to three quarters of that packing, next
// to the side it was filled from. All of it takes no longer than a few passes of the search from nothing.
#pragma once

#include <cstdint>
#include <span>

#include "plimsoll/pack/greedy.h"
#include "plimsoll/pack/instance.h"
#include "plimsoll/pack/search.h"

namespace plimsoll::pack {

// `hint` holds an offset in units for each buffer, -1 for unknown. Without offsets when no packing of at most
// `capacity` was found; that proves nothing. `searching` allows more than first fit.
Placement repair(const Instance& instance, std::span<const int64_t> hint, int64_t capacity, bool searching,
                 const Inference& inference, const Limits& limits);

}  // namespace plimsoll::pack
