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

}  // namespace plimsoll::models::onnx_import
