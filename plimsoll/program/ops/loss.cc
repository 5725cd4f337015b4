#include "plimsoll/program/ops/loss.h"

#include <fmt/format.h>

#include <array>

#include "plimsoll/program/autodiff.h"
#include "plimsoll/program/ops/sum_dtype.h"
#include "plimsoll/program/shape_rules.h"

namespace plimsoll::program {
namespace {

constexpr std::array<const char*, 3> kReductionNames = {"none", "mean", "sum"};

Attribute attribute_of(Reduction reduction) { return kReductionNames[static_cast<size_t>(reduction)]; }

AttributeSpec reduction_attribute() { return {"reduction", AttributeKind::word, attribute_of(Reduction::mean)}; }

// The type of the loss whose parts have the shape `parts`.
Type reduced(const OpCall& call, DType dtype, const Dims& parts) {
  const std::string& reduction = call.word("reduction");
  if (reduction == "none") return {sum_dtype(dtype), parts};
  call.require(reduction == "mean" || reduction == "sum", "reduction must be none, mean or sum");
  return {sum_dtype(dtype), {}};
}

// ---- cross entropy ----

// Logits are operand `logits`, targets the next. Returns the shape of the targets.
Dims check_classes(const OpCall& call, int logits) {
  call.require_floating(logits);
  const AxisSet classes = AxisSet().set(static_cast<size_t>(call.axis("axis", logits)));
  const Dims lines = reduced_shape(call.shape(logits), classes, false);
  if (!is_integer(call.input(logits + 1).dtype)) call.reject("targets must be integers: the index of a class");
  if (call.shape(logits + 1) != lines) {
    call.reject(fmt::format("targets must be of the shape of the logits without dimension {}, {}", call.integer("axis"),
                            lines.text()));
  }
  const double smoothing = call.real("label_smoothing");
  call.require(smoothing >= 0 && smoothing <= 1, "label_smoothing must be 0 to 1");
  return lines;
}

std::vector<Type> infer_cross_entropy(const OpCall& call) {
  const Dims lines = check_classes(call, 0);
  const DType dtype = call.input(0).dtype;
  return {reduced(call, dtype, lines), {sum_dtype(dtype), lines}};
}

std::vector<Type> infer_cross_entropy_backward(const OpCall& call) {
  const Dims lines = check_classes(call, 1);
  const DType dtype = call.input(1).dtype;
  call.require(call.input(0) == reduced(call, dtype, lines), "dloss must be of the type of the loss");
  call.require(call.input(3) == Type{sum_dtype(dtype), lines}, "lse must have one element for each target");
  return {call.input(1)};
}

void differentiate_cross_entropy(Gradient& g) {
  const std::vector<Value> reads = {g.of_output(), g.input(0), g.input(1), g.saved(1)};
  g.set(0, g.b.emit("cross_entropy_backward", reads, g.attributes()));
}

void add_cross_entropy(OpTable& table) {
  const std::vector<AttributeSpec> attributes = {{"axis", AttributeKind::integer, Attribute(-1)},
                                                 {"ignored_index", AttributeKind::integer, Attribute(-100)},
                                                 {"label_smoothing", AttributeKind::real, Attribute(0.0)},
                                                 reduction_attribute()};
  table.add(
      {.name = "cross_entropy",
       .inputs = {"logits", "targets"},
       .outputs = {"loss", "lse?"},
       .attributes = attributes,
       .infer = infer_cross_entropy,
       .gradient = differentiate_cross_entropy,
       .flops = [](const OpCall& call) { return Dim(4) * call.shape(0).elements(); },
       .traits = {.loss = OpTraits::Loss{.ignored = "ignored_index"}, .indices = OpTraits::Indices{.axis = "axis"}}});
  table.add({.name = "cross_entropy_backward",
             .inputs = {"dloss", "logits", "targets", "lse"},
             .attributes = attributes,
             .infer = infer_cross_entropy_backward,
             .in_place = {1},
             .flops = [](const OpCall& call) { return Dim(4) * call.shape(1).elements(); }});
}

// ---- element by element ----

std::vector<Type> infer_pointwise(const OpCall& call) {
  call.require_floating(0);
  call.require_same(0, 1);
  return {reduced(call, call.input(0).dtype, call.shape(0))};
}

std::vector<Type> infer_pointwise_backward(const OpCall& call) {
  call.require_floating(1);
  call.require_same(1, 2);
  const int64_t operand = call.integer("operand");
  call.require(operand == 0 || operand == 1, "operand must be 0 (x) or 1 (target)");
  call.require(call.input(0) == reduced(call, call.input(1).dtype, call.shape(1)),
               "dloss must be of the type of the loss");
  return {call.input(1)};
}

// A loss and `name_backward(dloss, x, target)`, the gradient of the operand that its attribute `operand` names.
void add_pointwise(OpTable& table, const std::string& name, const std::vector<AttributeSpec>& parameters = {}) {
  std::vector<AttributeSpec> attributes = {reduction_attribute()};
  attributes.insert(attributes.end(), parameters.begin(), parameters.end());
  const auto differentiate = [name](Gradient& g) {
    for (int i = 0; i < 2; ++i) {
      if (!g.wants(i)) continue;
      std::vector<NamedAttribute> same = g.attributes();
      same.emplace_back("operand", Attribute(i));
      g.set(i, g.b.emit(name + "_backward", std::vector{g.of_output(), g.input(0), g.input(1)}, same));
    }
  };
  table.add({.name = name,
             .inputs = {"x", "target"},
             .outputs = {"loss"},
             .attributes = attributes,
             .infer = infer_pointwise,
             .gradient = differentiate,
             .flops = [](const OpCall& call) { return Dim(3) * call.shape(0).elements(); },
             .traits = {.loss = OpTraits::Loss{}}});
  attributes.push_back({"operand", AttributeKind::integer, Attribute(0)});
  table.add({.name = name + "_backward",
             .inputs = {"dloss", "x", "target"},
             .attributes = attributes,
             .infer = infer_pointwise_backward,
             .in_place = {1, 2}});
}

Value emit_pointwise(Builder& b, std::string_view op, Value x, Value target, Reduction reduction) {
  return b.emit(op, {x, target}, {{"reduction", attribute_of(reduction)}});
}

}  // namespace

Value cross_entropy(Builder& b, Value logits, Value targets, CrossEntropyOptions options) {
  return b.emit("cross_entropy", {logits, targets},
                {{"axis", options.axis},
                 {"ignored_index", options.ignored_index},
                 {"label_smoothing", options.label_smoothing},
                 {"reduction", attribute_of(options.reduction)}});
}

Value mse_loss(Builder& b, Value x, Value target, Reduction reduction) {
  return emit_pointwise(b, "mse_loss", x, target, reduction);
}
Value l1_loss(Builder& b, Value x, Value target, Reduction reduction) {
  return emit_pointwise(b, "l1_loss", x, target, reduction);
}
Value huber_loss(Builder& b, Value x, Value target, double delta, Reduction reduction) {
  return b.emit("huber_loss", {x, target}, {{"reduction", attribute_of(reduction)}, {"delta", delta}});
}
Value bce_loss(Builder& b, Value x, Value target, Reduction reduction) {
  return emit_pointwise(b, "bce_loss", x, target, reduction);
}
Value bce_with_logits_loss(Builder& b, Value x, Value target, Reduction reduction) {
  return emit_pointwise(b, "bce_with_logits_loss", x, target, reduction);
}

void register_loss(OpTable& table) {
  add_cross_entropy(table);
  for (const char* name : {"mse_loss", "l1_loss", "bce_loss", "bce_with_logits_loss"}) add_pointwise(table, name);
  add_pointwise(table, "huber_loss", {{"delta", AttributeKind::real, Attribute(1.0)}});
}

}  // namespace plimsoll::program
