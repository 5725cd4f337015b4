// Attention over heads, for the ops that have it.
#pragma once

#include "plimsoll/models/onnx/node.h"

namespace plimsoll::models::onnx_import {

// [batch, tokens, heads * dim] to [batch, heads, tokens, dim], and back.
Value to_heads(Builder& b, Value x, int64_t heads);
Value from_heads(Builder& b, Value x);
// Each head of keys or values for `times` heads of queries.
Value repeat_heads(Builder& b, Value x, int64_t times);

struct HeadsAttention {
  Value mask = {};  // bool: true takes part; real: added. Broadcasts to [batch, heads, queries, keys]
  bool causal = false;
  double scale = 0;  // 0: one over the square root of the heads' width
};
// In parts where the mask is trained.
Value attend(NodeCall& call, Value q, Value k, Value v, const HeadsAttention& options);

// Rotates pairs of elements of x[batch, heads, tokens, dim] by cos and sin, which broadcast to half of them.
Value rotated(Builder& b, Value x, Value cosine, Value sine, bool interleaved);

// Scores of attention of which some were replaced by the lowest number there is: that number is added to them instead,
// which gives the same, so that attention can have it as its mask. Other values as they are.
Value with_added_mask(NodeCall& call, Value scores);

// Weights of attention in which zeros replaced what is no number, because a query sees no key: the same zeros, with a
// gradient that is a number. Other values as they are. (Attention as one op needs no such help; with dropout between
// softmax and product it stays in its parts.)
Value without_nans(NodeCall& call, Value weights);

}  // namespace plimsoll::models::onnx_import
