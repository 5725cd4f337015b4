// Attention and rotary embeddings of ONNX's own domain.
#include <fmt/format.h>

#include <cmath>

#include "plimsoll/models/onnx/heads.h"
#include "plimsoll/program/ops/along_axis.h"
#include "plimsoll/program/ops/attention.h"
#include "plimsoll/program/ops/constant.h"
#include "plimsoll/program/ops/elementwise_binary.h"
#include "plimsoll/program/ops/elementwise_unary.h"
#include "plimsoll/program/ops/index.h"
#include "plimsoll/program/ops/matmul.h"
#include "plimsoll/program/ops/reduce.h"
#include "plimsoll/program/ops/shape.h"
#include "plimsoll/program/ops/slice.h"
#include "plimsoll/program/ops/softmax.h"
#include "plimsoll/program/passes/fuse_attention.h"
#include "plimsoll/program/passes/pattern.h"

namespace plimsoll::models::onnx_import {

namespace p = program;

Value to_heads(Builder& b, Value x, int64_t heads) {
  const Dims s = b.shape(x);
  return p::transpose(b, p::reshape(b, x, {s[0], s[1], heads, floor_div(s[2], heads)}), {0, 2, 1, 3});
}

Value from_heads(Builder& b, Value x) {
  const Dims s = b.shape(x);
  return p::reshape(b, p::transpose(b, x, {0, 2, 1, 3}), {s[0], s[2], s[1] * s[3]});
}

Value repeat_heads(Builder& b, Value x, int64_t times) {
  if (times == 1) return x;
  const Dims s = b.shape(x);
  const Value wide = p::expand(b, p::reshape(b, x, {s[0], s[1], 1, s[2], s[3]}), {s[0], s[1], times, s[2], s[3]});
  return p::reshape(b, wide, {s[0], s[1] * times, s[2], s[3]});
}

namespace {

bool needs_gradient(const NodeCall& call, Value mask) {
  return mask && call.in.net.training() && p::is_trained(p::Facts(call.b.program()), mask);
}

}  // namespace

Value attend(NodeCall& call, Value q, Value k, Value v, const HeadsAttention& options) {
  Builder& b = call.b;
  if (needs_gradient(call, options.mask)) {  // which attention as one op has not
    const double root = std::sqrt(static_cast<double>(b.shape(q)[3].constant()));
    const double scale = options.scale == 0 ? 1 / root : options.scale;
    const Value products = p::affine(b, p::matmul(b, q, k, {.transpose_b = true}), {.scale = scale});
    call.require(!options.causal, "a mask that is trained, and causal as well");
    return p::matmul(b, p::softmax(b, p::add(b, products, options.mask), -1), v);
  }
  return p::attention(b, q, k, v, {.mask = options.mask, .causal = options.causal, .scale = options.scale});
}

Value rotated(Builder& b, Value x, Value cosine, Value sine, bool interleaved) {
  const Dims s = b.shape(x);
  const Dim half = floor_div(s[3], 2);
  Value left;
  Value right;
  if (interleaved) {
    left = p::slice(b, x, p::Range{.axis = 3, .start = 0, .end = s[3], .step = 2});
    right = p::slice(b, x, p::Range{.axis = 3, .start = 1, .end = s[3], .step = 2});
  } else {
    left = p::slice(b, x, p::Range{.axis = 3, .start = 0, .end = half});
    right = p::slice(b, x, p::Range{.axis = 3, .start = half, .end = s[3]});
  }
  const Value real = p::sub(b, p::mul(b, left, cosine), p::mul(b, right, sine));
  const Value imaginary = p::add(b, p::mul(b, left, sine), p::mul(b, right, cosine));
  if (!interleaved) return p::concat(b, std::vector<Value>{real, imaginary}, 3);
  const Dims one = {s[0], s[1], s[2], half, 1};
  const Value pairs = p::concat(b, std::vector<Value>{p::reshape(b, real, one), p::reshape(b, imaginary, one)}, 4);
  return p::reshape(b, pairs, s);
}

Value with_added_mask(NodeCall& call, Value scores) {
  constexpr double kLowest = -1e30;
  Builder& b = call.b;
  if (b.shape(scores).rank() != 4 || call.in.options().as_written) return scores;
  const p::Facts facts(b.program());
  const p::Op* choice = facts.produced_by(scores, "where");
  if (choice == nullptr) return scores;
  const Value condition = choice->inputs[0];
  const Dims shape = b.shape(condition);
  if (shape.rank() == 4 && shape[1] != Dim(1)) return scores;  // the mask would take as much memory as the scores
  for (const size_t lowest : {1, 2}) {
    const auto number = p::uniform(facts, choice->inputs[lowest]);
    const Value kept = choice->inputs[3 - lowest];
    if (!number || !std::isfinite(*number) || *number > kLowest || b.shape(kept) != b.shape(scores)) continue;
    const Value low = call.scalar(*number, b.type(kept).dtype);
    const Value zero = call.scalar(0, b.type(kept).dtype);
    return p::add(b, kept, lowest == 1 ? p::where(b, condition, low, zero) : p::where(b, condition, zero, low));
  }
  return scores;
}

Value without_nans(NodeCall& call, Value weights) {
  constexpr double kLowest = -3e38;
  Builder& b = call.b;
  const p::Facts facts(b.program());
  const p::Op* choice = facts.produced_by(weights, "where");
  if (choice == nullptr || p::uniform(facts, choice->inputs[1]) != 0.0) return weights;
  const Value kept = choice->inputs[2];
  const p::Op* is_nan = facts.produced_by(choice->inputs[0], "ne");
  const p::Op* softmax = facts.produced_by(kept, "softmax");
  if (is_nan == nullptr || softmax == nullptr || is_nan->inputs[0] != kept || is_nan->inputs[1] != kept) return weights;
  const Value scores = softmax->inputs[0];
  const DType dtype = b.type(scores).dtype;
  const double lowest = dtype == DType::f16 ? -6e4 : kLowest;
  const int axis = p::OwnedOpCall(b.program(), *softmax)->axis("axis", 0);
  const Value some = p::gt(b, p::max(b, scores, {.axes = {axis}, .keepdims = true}), call.scalar(lowest, dtype));
  const Value numbers = p::softmax(b, p::clamp(b, scores, lowest, INFINITY), axis);
  return p::where(b, some, numbers, call.scalar(0, dtype));
}

namespace {

Value counted(Builder& b, Dim size, const Dims& shape) {
  const Value ones = p::fill(b, 1, {DType::i64, {size}});
  return p::reshape(b, p::cumsum(b, ones, 0, {.exclusive = true}), shape);
}

// A mask that may have fewer keys than there are, or be of truth, as numbers to add.
Value added_mask(NodeCall& call, Value mask, Dim keys) {
  Builder& b = call.b;
  const DType dtype = call.in.net.dtype();
  if (b.type(mask).dtype == DType::boolean) {
    mask = p::where(b, mask, call.scalar(0, dtype), call.scalar(-INFINITY, dtype));
  }
  const Dims s = b.shape(mask);
  if (s.back() == keys || s.back() == Dim(1)) return mask;
  Dims rest = s;
  rest[s.rank() - 1] = keys - s.back();
  const Value outside = p::fill(b, -INFINITY, {dtype, rest});
  return p::concat(b, std::vector<Value>{mask, outside}, s.rank() - 1);
}

// What is added to the scores: the mask, keys after a query, keys that are padding. Nothing: nothing.
Value score_bias(NodeCall& call, Dim queries, Dim keys, Dim past) {
  Builder& b = call.b;
  const DType dtype = call.in.net.dtype();
  Value bias = call.has(3) ? added_mask(call, call.value(3), keys) : Value{};
  const auto keep = [&](Value holds) {
    const Value other = p::where(b, holds, call.scalar(0, dtype), call.scalar(-INFINITY, dtype));
    bias = bias ? p::add(b, bias, other) : other;
  };
  const Value place = counted(b, keys, {1, keys});
  Value lengths;  // of the keys of each sample that are no padding
  if (call.has(6)) lengths = p::reshape(b, call.value(6), {call.shape(6)[0], 1, 1, 1});
  const int64_t left = call.integer("left_window_size", -1);
  const int64_t right = call.integer("right_window_size", -1);
  if (call.flag("is_causal") || left >= 0 || right >= 0) {
    Value rows = counted(b, queries, {queries, 1});
    if (past != Dim(0)) rows = p::add(b, rows, call.scalar(static_cast<double>(past.constant()), DType::i64));
    if (lengths) {
      const Value before = p::sub(b, lengths, call.scalar(static_cast<double>(queries.constant()), DType::i64));
      rows = p::add(b, rows, before);
    }
    if (call.flag("is_causal")) keep(p::le(b, place, rows));
    const Value back = p::sub(b, rows, place);
    if (left >= 0) keep(p::le(b, back, call.scalar(static_cast<double>(left), DType::i64)));
    if (right >= 0) keep(p::ge(b, back, call.scalar(static_cast<double>(-right), DType::i64)));
  }
  if (lengths) keep(p::lt(b, place, lengths));
  return bias;
}

void import_attention(NodeCall& call) {
  Builder& b = call.b;
  Value q = call.value(0);
  Value k = call.value(1);
  Value v = call.value(2);
  const bool is_flat = call.rank(0) == 3;
  if (is_flat) {
    const int64_t q_heads = call.integer("q_num_heads", 1);
    const int64_t kv_heads = call.integer("kv_num_heads", 1);
    if (q_heads < 1 || kv_heads < 1) call.reject("a number of heads below 1");
    q = to_heads(b, q, q_heads);
    k = to_heads(b, k, kv_heads);
    v = to_heads(b, v, kv_heads);
  }
  Dim past = 0;
  if (call.has(4)) {
    past = call.shape(4)[2];
    k = p::concat(b, std::vector<Value>{call.value(4), k}, 2);
    v = p::concat(b, std::vector<Value>{call.value(5), v}, 2);
  }
  call.set(1, k, call.element_type(1));
  call.set(2, v, call.element_type(2));
  const int64_t q_heads = b.shape(q)[1].constant();
  const int64_t kv_heads = b.shape(k)[1].constant();
  if (kv_heads < 1 || q_heads % kv_heads != 0) call.reject("heads of queries that are no multiple of those of keys");
  k = repeat_heads(b, k, q_heads / kv_heads);
  v = repeat_heads(b, v, q_heads / kv_heads);
  const Dim keys = b.shape(k)[2];
  const Dim queries = b.shape(q)[2];
  const double scale = call.attribute("scale") == nullptr ? 1 / std::sqrt(static_cast<double>(b.shape(q)[3].constant()))
                                                          : call.real("scale", 1);
  const bool causal = call.flag("is_causal");
  const double softcap = call.real("softcap", 0);
  const bool has_window = call.integer("left_window_size", -1) >= 0 || call.integer("right_window_size", -1) >= 0;
  const bool is_plain = softcap == 0 && !call.wants(3) && scale > 0 && !call.has(6) && !has_window;
  if (is_plain && (!causal || (past == Dim(0) && queries == keys && !call.has(3)))) {
    const Value mask = call.has(3) ? added_mask(call, call.value(3), keys) : Value{};
    const Value y = attend(call, q, k, v, {.mask = mask, .causal = causal, .scale = scale});
    return call.set_same(is_flat ? from_heads(b, y) : y);
  }
  const int64_t mode = call.integer("qk_matmul_output_mode", 0);
  Value scores = p::affine(b, p::matmul(b, q, k, {.transpose_b = true}), {.scale = scale});
  if (softcap > 0) scores = p::affine(b, p::tanh(b, p::affine(b, scores, {.scale = 1 / softcap})), {.scale = softcap});
  if (mode < 2) call.set(3, scores, call.element_type(0));
  const Value bias = score_bias(call, queries, keys, past);
  if (bias) scores = p::add(b, scores, bias);
  if (mode == 2) call.set(3, scores, call.element_type(0));
  Value weights = p::softmax(b, scores, -1);
  if (bias) {  // a query that sees no key gives zeros
    const Value none =
        p::eq(b, p::max(b, bias, {.axes = {-1}, .keepdims = true}), call.scalar(-INFINITY, call.dtype(0)));
    weights = p::where(b, none, call.scalar(0, call.dtype(0)), weights);
  }
  if (mode == 3) call.set(3, weights, call.element_type(0));
  const Value y = p::matmul(b, weights, v);
  call.set_same(is_flat ? from_heads(b, y) : y);
}

// Tables of [positions, half] by position ids, or [batch, tokens, half] as they are: as they broadcast to
// [batch, heads, tokens, half].
Value table_lines(NodeCall& call, int at, int ids_at) {
  Builder& b = call.b;
  Value lines = call.value(at);
  if (call.has(ids_at)) lines = p::gather(b, lines, call.value(ids_at), 0);
  const Dims s = b.shape(lines);
  if (s.rank() != 3) call.reject("cos and sin must have a line for each token");
  return p::reshape(b, lines, {s[0], 1, s[1], s[2]});
}

void import_rotary(NodeCall& call) {
  Builder& b = call.b;
  Value x = call.value(0);
  const bool is_flat = call.rank(0) == 3;
  if (is_flat) {
    const int64_t heads = call.integer("num_heads", 0);
    if (heads < 1) call.reject("an operand of three dimensions needs num_heads");
    x = to_heads(b, x, heads);
  }
  const int64_t width = call.integer("rotary_embedding_dim", 0);
  const Dims s = b.shape(x);
  const Value cosine = table_lines(call, 1, 3);
  const Value sine = table_lines(call, 2, 3);
  Value rest;
  if (width > 0 && s[3] != Dim(width)) {
    rest = p::slice(b, x, p::Range{.axis = 3, .start = width, .end = s[3]});
    x = p::slice(b, x, p::Range{.axis = 3, .start = 0, .end = width});
  }
  Value y = rotated(b, x, cosine, sine, call.flag("interleaved"));
  if (rest) y = p::concat(b, std::vector<Value>{y, rest}, 3);
  call.set_same(is_flat ? from_heads(b, y) : y);
}

constexpr RuleEntry kAttentionRules[] = {
    {"Attention", import_attention},
    {"RotaryEmbedding", import_rotary},
};

}  // namespace

RuleFamily attention_rules() { return {"", kAttentionRules}; }

}  // namespace plimsoll::models::onnx_import
