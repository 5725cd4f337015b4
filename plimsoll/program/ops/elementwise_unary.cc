#include "plimsoll/program/ops/elementwise_unary.h"

#include <array>
#include <variant>

#include "plimsoll/program/autodiff.h"
#include "plimsoll/program/shape_rules.h"

namespace plimsoll::program {
namespace {

using Specs = std::vector<AttributeSpec>;

AttributeSpec real(const char* name, double fallback) { return {name, AttributeKind::real, Attribute(fallback)}; }

std::vector<Type> infer_floating(const OpCall& call) {
  call.require_floating(0);
  return {call.input(0)};
}

std::vector<Type> infer_number(const OpCall& call) {
  require_number(call, 0);
  return {call.input(0)};
}

std::vector<Type> infer_masked(const OpCall& call) {
  call.require_floating(0);
  return {call.input(0), bit_mask(call.shape(0))};
}

std::vector<Type> infer_mask_backward(const OpCall& call) {
  call.require_floating(0);
  call.require(call.input(1) == bit_mask(call.shape(0)), "mask must have one bit for each element of dy");
  return {call.input(0)};
}

std::vector<Type> infer_backward(const OpCall& call) {
  call.require_floating(0);
  call.require_same(0, 1);
  return {call.input(0)};
}

std::vector<Type> infer_elu(const OpCall& call) {
  call.require(call.real("alpha") >= 0, "alpha must be at least 0");
  return infer_floating(call);
}

std::vector<Type> infer_softplus(const OpCall& call) {
  call.require(call.real("beta") > 0, "beta must be above 0");
  return infer_floating(call);
}

std::vector<Type> infer_affine(const OpCall& call) {
  const Dim divisor = call.dim("divisor");
  call.require(!divisor.is_constant() || divisor.constant() >= 0, "divisor must not be negative");
  return infer_floating(call);
}

enum class Reads { input, output };

// An op `name` and its `name_backward(dy, x or y)`, which reads the input or the output and has the same attributes.
void add_pair(OpTable& table, const std::string& name, Reads reads, const Specs& attributes = {},
              std::vector<Type> (*infer)(const OpCall&) = infer_floating) {
  const std::string backward = name + "_backward";
  const auto differentiate = [backward, reads, attributes](Gradient& g) {
    std::vector<NamedAttribute> given;
    for (const AttributeSpec& spec : attributes) given.emplace_back(spec.name, g.attribute(spec.name));
    const std::array operands = {g.of_output(), reads == Reads::input ? g.input(0) : g.output()};
    g.set(0, g.b.emit(backward, operands, given));
  };
  table.add({.name = name,
             .inputs = {"x"},
             .attributes = attributes,
             .infer = infer,
             .gradient = differentiate,
             .in_place = {0}});
  table.add({.name = backward,
             .inputs = {"dy", reads == Reads::input ? "x" : "y"},
             .attributes = attributes,
             .infer = infer_backward,
             .in_place = {0, 1}});
}

// An op whose slope has two values, told apart by one bit an element: `set` where the bit is set, else `clear`. Each is
// a number or the name of an attribute.
using Slope = std::variant<double, const char*>;

double slope_of(const Gradient& g, const Slope& slope) {
  const auto* attribute = std::get_if<const char*>(&slope);
  return attribute != nullptr ? g.attribute(*attribute).real() : std::get<double>(slope);
}

void add_masked(OpTable& table, const std::string& name, const Slope& set, const Slope& clear,
                const Specs& attributes) {
  const auto differentiate = [set, clear](Gradient& g) {
    g.set(0, g.b.emit("mask_backward", {g.of_output(), g.saved(1)},
                      {{"set", slope_of(g, set)}, {"clear", slope_of(g, clear)}}));
  };
  table.add({.name = name,
             .inputs = {"x"},
             .outputs = {"y", "mask?"},
             .attributes = attributes,
             .infer = infer_masked,
             .gradient = differentiate,
             .in_place = {0}});
}

void add_masked_ops(OpTable& table) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  add_masked(table, "relu", 1.0, 0.0, {});
  add_masked(table, "leaky_relu", 1.0, "slope", {real("slope", 0.01)});
  add_masked(table, "clamp", 1.0, 0.0, {real("low", -kInfinity), real("high", kInfinity)});
  add_masked(table, "hard_sigmoid", "scale", 0.0, {real("scale", 1.0 / 6), real("shift", 0.5)});
  // dy times `set` where the bit is set, times `clear` elsewhere.
  table.add({.name = "mask_backward",
             .inputs = {"dy", "mask"},
             .attributes = {real("set", 1), real("clear", 0)},
             .infer = infer_mask_backward,
             .in_place = {0}});
}

void add_pairs(OpTable& table) {
  for (const char* name : {"sigmoid", "tanh", "exp", "sqrt", "rsqrt", "reciprocal"}) {
    add_pair(table, name, Reads::output);
  }
  add_pair(table, "elu", Reads::output, {real("alpha", 1)}, infer_elu);
  add_pair(table, "softplus", Reads::output, {real("beta", 1)}, infer_softplus);
  for (const char* name : {"log", "silu", "gelu", "gelu_tanh", "hard_swish", "sin", "cos", "erf"}) {
    add_pair(table, name, Reads::input);
  }
  for (const char* name : {"abs", "square"}) add_pair(table, name, Reads::input, {}, infer_number);
  add_pair(table, "pow_scalar", Reads::input, {{"exponent", AttributeKind::real, {}}});
}

void add_steps(OpTable& table) {
  const auto add_step = [&](const char* name, std::vector<Type> (*infer)(const OpCall&)) {
    table.add({.name = name, .inputs = {"x"}, .infer = infer, .gradient = zero_gradient, .in_place = {0}});
  };
  add_step("sign", infer_number);
  for (const char* name : {"floor", "ceil", "round"}) add_step(name, infer_floating);
}

void differentiate_affine(Gradient& g) {
  g.set(0, affine(g.b, g.of_output(), {.scale = g.attribute("scale").real(), .divisor = g.attribute("divisor").dim()}));
}

void add_linear(OpTable& table) {
  table.add({.name = "neg",
             .inputs = {"x"},
             .infer = infer_number,
             .gradient = [](Gradient& g) { g.set(0, neg(g.b, g.of_output())); },
             .in_place = {0}});
  table.add({.name = "affine",
             .inputs = {"x"},
             .attributes = {real("scale", 1), {"divisor", AttributeKind::dim, Attribute(1)}, real("shift", 0)},
             .infer = infer_affine,
             .gradient = differentiate_affine,
             .in_place = {0}});
}

std::optional<Layout> view_cast(const OpCall& call, const Layout& of) {
  if (call.input(0).dtype != call.output(0).dtype) return std::nullopt;
  return of;
}

void add_copies(OpTable& table) {
  table.add({.name = "identity",
             .inputs = {"x"},
             .infer = [](const OpCall& call) { return std::vector{call.input(0)}; },
             .gradient = [](Gradient& g) { g.set(0, g.of_output()); },
             .view = [](const OpCall&, const Layout& of) { return std::optional(of); },
             .flops = no_flops});
  table.add({.name = "cast",
             .inputs = {"x"},
             .attributes = {{"dtype", AttributeKind::word, {}}},
             .infer =
                 [](const OpCall& call) {
                   return std::vector{Type{dtype_attribute(call), call.shape(0)}};
                 },
             .gradient = [](Gradient& g) { g.set(0, cast(g.b, g.of_output(), g.b.type(g.input(0)).dtype)); },
             .view = view_cast,
             .in_place = {0}});
}

}  // namespace

Value relu(Builder& b, Value x) { return b.emit("relu", {x}); }
Value leaky_relu(Builder& b, Value x, double slope) { return b.emit("leaky_relu", {x}, {{"slope", slope}}); }
Value clamp(Builder& b, Value x, double low, double high) {
  return b.emit("clamp", {x}, {{"low", low}, {"high", high}});
}
Value relu6(Builder& b, Value x) { return clamp(b, x, 0, 6); }
Value hard_sigmoid(Builder& b, Value x, double scale, double shift) {
  return b.emit("hard_sigmoid", {x}, {{"scale", scale}, {"shift", shift}});
}
Value sigmoid(Builder& b, Value x) { return b.emit("sigmoid", {x}); }
Value tanh(Builder& b, Value x) { return b.emit("tanh", {x}); }
Value exp(Builder& b, Value x) { return b.emit("exp", {x}); }
Value sqrt(Builder& b, Value x) { return b.emit("sqrt", {x}); }
Value rsqrt(Builder& b, Value x) { return b.emit("rsqrt", {x}); }
Value reciprocal(Builder& b, Value x) { return b.emit("reciprocal", {x}); }
Value elu(Builder& b, Value x, double alpha) { return b.emit("elu", {x}, {{"alpha", alpha}}); }
Value softplus(Builder& b, Value x, double beta) { return b.emit("softplus", {x}, {{"beta", beta}}); }
Value log(Builder& b, Value x) { return b.emit("log", {x}); }
Value silu(Builder& b, Value x) { return b.emit("silu", {x}); }
Value gelu(Builder& b, Value x) { return b.emit("gelu", {x}); }
Value gelu_tanh(Builder& b, Value x) { return b.emit("gelu_tanh", {x}); }
Value hard_swish(Builder& b, Value x) { return b.emit("hard_swish", {x}); }
Value abs(Builder& b, Value x) { return b.emit("abs", {x}); }
Value square(Builder& b, Value x) { return b.emit("square", {x}); }
Value sin(Builder& b, Value x) { return b.emit("sin", {x}); }
Value cos(Builder& b, Value x) { return b.emit("cos", {x}); }
Value erf(Builder& b, Value x) { return b.emit("erf", {x}); }
Value pow(Builder& b, Value x, double exponent) { return b.emit("pow_scalar", {x}, {{"exponent", exponent}}); }
Value neg(Builder& b, Value x) { return b.emit("neg", {x}); }
Value sign(Builder& b, Value x) { return b.emit("sign", {x}); }
Value floor(Builder& b, Value x) { return b.emit("floor", {x}); }
Value ceil(Builder& b, Value x) { return b.emit("ceil", {x}); }
Value round(Builder& b, Value x) { return b.emit("round", {x}); }
Value identity(Builder& b, Value x) { return b.emit("identity", {x}); }
Value affine(Builder& b, Value x, const AffineOptions& options) {
  return b.emit("affine", {x}, {{"scale", options.scale}, {"divisor", options.divisor}, {"shift", options.shift}});
}
Value cast(Builder& b, Value x, DType dtype) { return b.emit("cast", {x}, {{"dtype", dtype}}); }

void register_elementwise_unary(OpTable& table) {
  add_masked_ops(table);
  add_pairs(table);
  add_steps(table);
  add_linear(table);
  add_copies(table);
}

}  // namespace plimsoll::program
