// Splits an instance into parts that can be packed apart from each other. Buffers that share no section with a later
// one end a part; a buffer that is alive in every section of its part can go below all others; one that fits wherever
// the others lie can go last. What is left may split again. All of it keeps the optimum.
#pragma once

#include <cstdint>
#include <vector>

#include "plimsoll/pack/instance.h"

namespace plimsoll::pack {

struct Part {
  std::vector<int32_t> buffers;
  int64_t base = 0;  // units below it that are taken for good
};

struct Decomposition {
  std::vector<Part> parts;       // none empty
  std::vector<int64_t> offsets;  // of the buffers placed for good, in units; -1 for all others
  std::vector<int32_t> last;     // to be placed when the parts are, in this order, wherever they fit
};

// For an arena of `capacity` units or more. Fixed offsets leave everything in one part; alignments leave full-length
// buffers in theirs.
Decomposition decompose(const Instance& instance, int64_t capacity, const Inference& inference);

}  // namespace plimsoll::pack
