// Scaled dot-product attention as one op, so that the matrix of scores never needs to exist.
#pragma once

#include "plimsoll/program/builder.h"
#include "plimsoll/program/ops/dropout.h"

namespace plimsoll::program {

struct AttentionOptions {
  // Broadcasts to [batch, heads, queries, keys]. Boolean: true where the key takes part. Floating: added to the scores.
  Value mask = {};
  bool causal = false;  // query i sees keys 0 to i
  double scale = 0;     // of the scores; 0: one over the square root of their dimension
  // Given: weights are dropped as dropout(weights, seed, options) would, drawn again in the backward pass.
  Value seed = {};
  DropoutOptions dropout = {};
};

// softmax(scale * q k' + mask) v for q[batch, heads, queries, dim], k[batch, heads, keys, dim] and
// v[batch, heads, keys, width]: [batch, heads, queries, width]. A query that sees no key gives zeros.
// Backward reads q, k, v, the output, the mask and one number for each query (the logarithm of its sum of
// exponentials); beyond its results it needs memory in proportion to the queries, not to queries times keys.
Value attention(Builder& b, Value q, Value k, Value v, AttentionOptions options = {});

}  // namespace plimsoll::program
