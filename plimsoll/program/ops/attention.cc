#include "plimsoll/program/ops/attention.h"

#include <fmt/format.h>

#include "plimsoll/program/autodiff.h"
#include "plimsoll/program/broadcast.h"
#include "plimsoll/program/ops/sum_dtype.h"

namespace plimsoll::program {
namespace {

// The sizes of one attention, whose operands q, k, v stand from `first` on.
struct Sizes {
  Dim batch, heads, queries, keys, dim, width;

  Sizes(const Call& call, int first)
      : batch(call.shape(first)[0]),
        heads(call.shape(first)[1]),
        queries(call.shape(first)[2]),
        keys(call.shape(first + 1)[2]),
        dim(call.shape(first)[3]),
        width(call.shape(first + 2)[3]) {}

  Dims out() const { return {batch, heads, queries, width}; }
  Dims lse() const { return {batch, heads, queries}; }
  Dims scores() const { return {batch, heads, queries, keys}; }
};

void check_mask(const Call& call, const Sizes& sizes, int q, int mask) {
  const bool boolean = call.input(mask).dtype == DType::boolean;
  call.require(boolean || call.input(mask).dtype == call.input(q).dtype, "mask must be bool or of q's dtype");
  if (broadcast_shapes(call.shape(mask), sizes.scores()) != sizes.scores()) {
    call.reject(fmt::format("mask must broadcast to [batch,heads,queries,keys], {}", sizes.scores().text()));
  }
}

// q, k, v stand from `first` on; the mask, if any, is operand `mask`.
Sizes check(const Call& call, int first, int mask) {
  call.require_floating(first);
  for (int i = first; i < first + 3; ++i) {
    call.require_same_dtype(first, i);
    call.require_rank(i, 4);
  }
  const Sizes sizes(call, first);
  call.require(call.shape(first + 1) == Dims{sizes.batch, sizes.heads, sizes.keys, sizes.dim},
               "q [batch,heads,queries,dim] and k [batch,heads,keys,dim] must agree in batch, heads and dim");
  call.require(call.shape(first + 2) == Dims{sizes.batch, sizes.heads, sizes.keys, sizes.width},
               "k [batch,heads,keys,dim] and v [batch,heads,keys,width] must agree in batch, heads and keys");
  call.require(call.real("scale") >= 0, "scale must be above 0, or 0 for one over the square root of dim");
  if (mask < call.arity()) check_mask(call, sizes, first, mask);
  return sizes;
}

std::vector<Type> infer_attention(const Call& call) {
  const Sizes sizes = check(call, 0, 3);
  const DType dtype = call.input(0).dtype;
  return {{dtype, sizes.out()}, {sum_dtype(dtype), sizes.lse()}};
}

std::vector<Type> infer_backward(const Call& call) {
  const Sizes sizes = check(call, 1, 6);
  const DType dtype = call.input(1).dtype;
  const Type out = {dtype, sizes.out()};
  call.require(call.input(0) == out && call.input(4) == out, "dy and y must be of the type of the output");
  call.require(call.input(5) == Type{sum_dtype(dtype), sizes.lse()}, "lse must have one element for each query");
  const bool masked = call.arity() > 6;
  return {call.input(1), call.input(2), call.input(3), masked ? call.input(6) : Type{dtype, {0}}};
}

void differentiate_attention(Gradient& g) {
  std::vector<Value> reads = {g.of_output(), g.input(0), g.input(1), g.input(2), g.output(), g.saved(1)};
  const bool masked = g.arity() > 3;
  if (masked) reads.push_back(g.input(3));
  const std::vector<NamedAttribute> same = {{"causal", g.attribute("causal")}, {"scale", g.attribute("scale")}};
  g.b.emit("attention_backward", reads, same);
  const std::vector<Value> results = g.b.last_outputs();
  for (int i = 0; i < 3; ++i) g.set(i, results[static_cast<size_t>(i)]);
  if (masked && g.wants(3)) g.set(3, g.b.optional_output(g.b.program().ops.size() - 1, 3));
}

// Operations of products over all scores: `columns` is the sum of the lengths of their rows. A causal mask halves them.
Dim score_flops(const Call& call, const Sizes& sizes, Dim columns) {
  const Dim all = sizes.scores().elements() * columns;
  return call.flag("causal") ? all : Dim(2) * all;
}

}  // namespace

Value attention(Builder& b, Value q, Value k, Value v, AttentionOptions options) {
  std::vector<Value> operands = {q, k, v};
  if (options.mask) operands.push_back(options.mask);
  const std::vector<NamedAttribute> attributes = {{"causal", options.causal}, {"scale", options.scale}};
  return b.emit("attention", operands, attributes);
}

void register_attention(OpTable& table) {
  const std::vector<AttributeSpec> attributes = {{"causal", AttributeKind::flag, Attribute(false)},
                                                 {"scale", AttributeKind::real, Attribute(0.0)}};
  table.add({.name = "attention",
             .inputs = {"q", "k", "v", "mask?"},
             .outputs = {"y", "lse?"},
             .attributes = attributes,
             .infer = infer_attention,
             .gradient = differentiate_attention,
             .flops = [](const Call& call) {
               const Sizes sizes(call, 0);
               return score_flops(call, sizes, sizes.dim + sizes.width);
             }});
  // Computes the scores again from q, k and lse, block by block.
  table.add({.name = "attention_backward",
             .inputs = {"dy", "q", "k", "v", "y", "lse", "mask?"},
             .outputs = {"dq", "dk", "dv", "dmask?"},
             .attributes = attributes,
             .infer = infer_backward,
             .flops = [](const Call& call) {
               const Sizes sizes(call, 1);
               return score_flops(call, sizes, Dim(3) * sizes.dim + Dim(2) * sizes.width);
             }});
}

}  // namespace plimsoll::program
