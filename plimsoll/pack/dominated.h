// Buffers that the search can leave out. Those that live with one cut the arena into gaps; when the largest of them
// must hold it however they lie, it can be placed after all others, and whether these fit is all that matters.
#pragma once

#include <cstdint>
#include <vector>

#include "plimsoll/pack/instance.h"

namespace plimsoll::pack {

// What can be left out of an arena of `capacity` units, or of a larger one, in the order in which it was taken away: to
// be put back in reverse, each at any offset where it fits. None when there are alignments or fixed offsets.
std::vector<int32_t> dominated(const Instance& instance, int64_t capacity);

}  // namespace plimsoll::pack
