// Recipes are told in terms of all buffers, runs of the search in terms of the part that they pack.
#pragma once

#include <span>
#include <vector>

#include "plimsoll/pack/decompose.h"
#include "plimsoll/pack/pack.h"
#include "plimsoll/pack/portfolio.h"

namespace plimsoll::pack {

// `run.nodes` are those it took. The buffers of a part rise.
Recipe recipe_of(const Run& run, const Part& part);

// The runs that packed this part, or one like it, when the hints were made: the shortest first, each with a little more
// nodes than it took then. Buffers that a recipe does not know come last in its order.
std::vector<Run> runs_for(const Part& part, std::span<const Packing> hints);

}  // namespace plimsoll::pack
