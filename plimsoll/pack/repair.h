// Packs again from the offsets of a similar instance. What did not change stays where it was; what collides now is
// searched anew together with its neighbours in time, in windows that widen until one of them works out.
#pragma once

#include <cstdint>
#include <span>

#include "plimsoll/pack/greedy.h"
#include "plimsoll/pack/instance.h"
#include "plimsoll/pack/search.h"

namespace plimsoll::pack {

// `hint` holds an offset in units for each buffer, -1 for unknown. Without offsets when no window led to a packing of
// at most `capacity`; that proves nothing.
Placement repair(const Instance& instance, std::span<const int64_t> hint, int64_t capacity, const Inference& inference,
                 const Limits& limits);

}  // namespace plimsoll::pack
