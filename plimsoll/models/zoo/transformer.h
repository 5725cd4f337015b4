// What the transformers of the zoo share. Sequences are [batch, sequence, width].
#pragma once

#include "plimsoll/models/nn.h"

namespace plimsoll::models {

struct Heads {
  int64_t count = 1;
  bool causal = false;
};

// Scaled dot-product attention in several heads, each with its part of the width, put together again.
Value attend(Net& net, Value q, Value k, Value v, const Heads& heads);

// The same for queries, keys and values that one product made side by side: [batch, sequence, 3 * width].
Value self_attend(Net& net, Value qkv, const Heads& heads);

// All transformers of the zoo start so, as their papers and libraries do.
inline constexpr Init kTransformerInit = normal(0.02);

}  // namespace plimsoll::models
