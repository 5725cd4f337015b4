// Packs again around what no longer fits. The offsets of a similar instance are kept for all buffers but those that
// collide there; each of these is packed anew together with whatever lives at about the same time, in windows of time
// that grow until one can be packed with everything outside of it in place.
#pragma once

#include <cstdint>
#include <span>

#include "plimsoll/pack/greedy.h"
#include "plimsoll/pack/instance.h"
#include "plimsoll/pack/search.h"

namespace plimsoll::pack {

// `hint` holds an offset in units for each buffer, -1 for unknown. Without offsets when no packing of at most
// `capacity` was found within the few nodes that each window gets; that proves nothing.
Placement repair_windows(const Instance& instance, std::span<const int64_t> hint, int64_t capacity,
                         const Inference& inference, const Limits& limits);

}  // namespace plimsoll::pack
