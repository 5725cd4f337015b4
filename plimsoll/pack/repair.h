// Packs again from the offsets of a similar instance, by first fit in their order: from the bottom up and, if that is
// too high, from the top down, since a chain of buffers that touch can give way on either side. Takes two passes.
#pragma once

#include <cstdint>
#include <span>

#include "plimsoll/pack/greedy.h"
#include "plimsoll/pack/instance.h"
#include "plimsoll/pack/search.h"

namespace plimsoll::pack {

// `hint` holds an offset in units for each buffer, -1 for unknown. Without offsets when neither pass stays within
// `capacity`; that proves nothing.
Placement refill(const Instance& instance, std::span<const int64_t> hint, int64_t capacity, const Limits& limits);

// The same in one cheaper pass, for where first fit takes long: each buffer on top of those that lay lower and live
// when it does, whatever that gives. What lies in its way is pushed up; holes stay.
Placement restack(const Instance& instance, std::span<const int64_t> hint);

}  // namespace plimsoll::pack
