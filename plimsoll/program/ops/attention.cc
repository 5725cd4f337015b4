#include "plimsoll/program/ops/attention.h"

#include <fmt/format.h>

#include "plimsoll/program/autodiff.h"
#include "plimsoll/program/ops/sum_dtype.h"
#include "plimsoll/program/shape_rules.h"

namespace plimsoll::program {
namespace {

// The sizes of one attention, whose operands q, k, v stand from `first` on.
struct Sizes {
  Dim batch, heads, queries, keys, dim, width;

  Sizes(const OpCall& call, int first)
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

void check_mask(const OpCall& call, const Sizes& sizes, int q, int mask) {
  const bool boolean = call.input(mask).dtype == DType::boolean;
  call.require(boolean || call.input(mask).dtype == call.input(q).dtype, "mask must be bool or of q's dtype");
  if (!broadcasts_to(call.shape(mask), sizes.scores())) {
    call.reject(fmt::format("mask must broadcast to [batch,heads,queries,keys], {}", sizes.scores().text()));
  }
}

// Two ops, `attention` and `attention_dropout`, which has a seed after q, k and v and the attributes of dropout.
struct Kind {
  const char* name;
  bool drops;

  std::string backward() const { return std::string(name) + "_backward"; }
  std::vector<std::string> with_tail(std::vector<std::string> operands) const {
    if (drops) operands.push_back("seed");
    operands.push_back("mask?");
    return operands;
  }
};

void check_dropout(const OpCall& call, int seed) {
  call.require(call.input(seed) == Type{DType::i64, {}}, "seed must be i64[]");
  call.require(call.real("rate") >= 0 && call.real("rate") <= 1, "rate must be 0 to 1");
}

// q, k, v stand from `first` on, what may follow (seed and mask) from `tail` on.
Sizes check(const OpCall& call, const Kind& kind, int first, int tail) {
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
  if (kind.drops) check_dropout(call, tail++);
  if (tail < call.arity()) check_mask(call, sizes, first, tail);
  return sizes;
}

std::vector<Type> infer_attention(const OpCall& call, const Kind& kind) {
  const Sizes sizes = check(call, kind, 0, 3);
  const DType dtype = call.input(0).dtype;
  return {{dtype, sizes.out()}, {sum_dtype(dtype), sizes.lse()}};
}

std::vector<Type> infer_backward(const OpCall& call, const Kind& kind) {
  const Sizes sizes = check(call, kind, 1, 6);
  const DType dtype = call.input(1).dtype;
  const Type out = {dtype, sizes.out()};
  call.require(call.input(0) == out && call.input(4) == out, "dy and y must be of the type of the output");
  call.require(call.input(5) == Type{sum_dtype(dtype), sizes.lse()}, "lse must have one element for each query");
  const bool masked = call.arity() > (kind.drops ? 7 : 6);
  return {call.input(1), call.input(2), call.input(3), masked ? call.inputs.back() : Type{dtype, {0}}};
}

void differentiate_attention(Gradient& g, const Kind& kind) {
  std::vector<Value> reads = {g.of_output(), g.input(0), g.input(1), g.input(2), g.output(), g.saved(1)};
  for (int i = 3; i < g.arity(); ++i) reads.push_back(g.input(i));
  g.b.emit(kind.backward(), reads, g.attributes());
  const std::vector<Value> results = g.b.last_outputs();
  for (int i = 0; i < 3; ++i) g.set(i, results[static_cast<size_t>(i)]);
  const int mask = kind.drops ? 4 : 3;
  if (mask < g.arity() && g.wants(mask)) g.set(mask, g.b.optional_output(g.b.program().ops.size() - 1, 3));
}

// Operations of products over all scores: `columns` is the sum of the lengths of their rows. A causal mask halves them.
Dim score_flops(const OpCall& call, const Sizes& sizes, Dim columns) {
  const Dim all = sizes.scores().elements() * columns;
  return call.flag("causal") ? all : Dim(2) * all;
}

Dim forward_flops(const OpCall& call) {
  const Sizes sizes(call, 0);
  return score_flops(call, sizes, sizes.dim + sizes.width);
}

// Computes the scores again from q, k and lse, block by block.
Dim backward_flops(const OpCall& call) {
  const Sizes sizes(call, 1);
  return score_flops(call, sizes, Dim(3) * sizes.dim + Dim(2) * sizes.width);
}

std::vector<AttributeSpec> attributes_of(const Kind& kind) {
  std::vector<AttributeSpec> attributes = {{"causal", AttributeKind::flag, Attribute(false)},
                                           {"scale", AttributeKind::real, Attribute(0.0)}};
  if (!kind.drops) return attributes;
  attributes.push_back({"rate", AttributeKind::real, {}});
  attributes.push_back({"stream", AttributeKind::integer, {}});
  attributes.push_back({"offset", AttributeKind::dim, Attribute(0)});
  return attributes;
}

void add_kind(OpTable& table, const Kind& kind) {
  const auto draws = [&](int seed) {
    return OpTraits{.draws = kind.drops ? std::optional(OpTraits::Draws{.seed = seed}) : std::nullopt};
  };
  table.add({.name = kind.name,
             .inputs = kind.with_tail({"q", "k", "v"}),
             .outputs = {"y", "lse?"},
             .attributes = attributes_of(kind),
             .infer = [kind](const OpCall& call) { return infer_attention(call, kind); },
             .gradient = [kind](Gradient& g) { differentiate_attention(g, kind); },
             .flops = forward_flops,
             .traits = draws(3)});
  table.add({.name = kind.backward(),
             .inputs = kind.with_tail({"dy", "q", "k", "v", "y", "lse"}),
             .outputs = {"dq", "dk", "dv", "dmask?"},
             .attributes = attributes_of(kind),
             .infer = [kind](const OpCall& call) { return infer_backward(call, kind); },
             .flops = backward_flops,
             .traits = draws(6)});
}

}  // namespace

Value attention(Builder& b, Value q, Value k, Value v, AttentionOptions options) {
  std::vector<Value> operands = {q, k, v};
  std::vector<NamedAttribute> attributes = {{"causal", options.causal}, {"scale", options.scale}};
  if (options.seed) {
    operands.push_back(options.seed);
    const auto place = static_cast<int64_t>(b.program().ops.size());
    attributes.emplace_back("rate", options.dropout.rate);
    attributes.emplace_back("stream", options.dropout.stream.value_or(place));
    attributes.emplace_back("offset", options.dropout.offset);
  }
  if (options.mask) operands.push_back(options.mask);
  return b.emit(options.seed ? "attention_dropout" : "attention", operands, attributes);
}

void register_attention(OpTable& table) {
  add_kind(table, {"attention", false});
  add_kind(table, {"attention_dropout", true});
}

}  // namespace plimsoll::program
