#include "plimsoll/program/ops/elementwise_unary.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>
#include <variant>

#include "plimsoll/program/autodiff.h"
#include "plimsoll/program/ops/elementwise.h"
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

// An op whose slope has two values, told apart by one bit an element: `set` where the bit is set, else `clear`. Each is
// a number or the name of an attribute.
using Slope = std::variant<double, const char*>;

double slope_of(const Gradient& g, const Slope& slope) {
  const auto* attribute = std::get_if<const char*>(&slope);
  return attribute != nullptr ? g.attribute(*attribute).real() : std::get<double>(slope);
}

void add_masked(OpTable& table, const std::string& name, const Slope& set, const Slope& clear, const Specs& attributes,
                OpTraits traits) {
  traits.elementwise = true;
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
             .in_place = {0},
             .traits = std::move(traits)});
}

void add_masked_ops(OpTable& table) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  add_masked(table, "relu", 1.0, 0.0, {}, {.sign = Sign::non_negative});
  add_masked(table, "leaky_relu", 1.0, "slope", {real("slope", 0.01)}, {});
  const auto clamp_sign = [](const OpCall& call) { return call.real("low") >= 0 ? Sign::non_negative : Sign::any; };
  add_masked(table, "clamp", 1.0, 0.0, {real("low", -kInfinity), real("high", kInfinity)}, {.sign_of = clamp_sign});
  add_masked(table, "hard_sigmoid", "scale", 0.0, {real("scale", 1.0 / 6), real("shift", 0.5)},
             {.sign = Sign::non_negative});
  // dy times `set` where the bit is set, times `clear` elsewhere.
  table.add({.name = "mask_backward",
             .inputs = {"dy", "mask"},
             .attributes = {real("set", 1), real("clear", 0)},
             .infer = infer_mask_backward,
             .in_place = {0}});
}

template <class T>
T logistic(T x) {
  return 1 / (1 + std::exp(-x));
}

// The normal distribution: up to x, and at x.
template <class T>
T normal_below(T x) {
  return (1 + std::erf(x / std::numbers::sqrt2_v<T>)) / 2;
}
template <class T>
T normal_at(T x) {
  return std::exp(-x * x / 2) / std::sqrt(2 * std::numbers::pi_v<T>);
}

// gelu_tanh is x * (1 + tanh(u)) / 2, u this.
template <class T>
T gelu_inner(T x) {
  return std::sqrt(2 / std::numbers::pi_v<T>) * (x + T(0.044715) * x * x * x);
}
template <class T>
T gelu_tanh_slope(T x) {
  const T tanh = std::tanh(gelu_inner(x));
  const T inner_slope = std::sqrt(2 / std::numbers::pi_v<T>) * (1 + T(3 * 0.044715) * x * x);
  return (1 + tanh) / 2 + x * (1 - tanh * tanh) * inner_slope / 2;
}

template <class T>
T softplus_of(T x, T beta) {
  return (std::max(beta * x, T(0)) + std::log1p(std::exp(-std::abs(beta * x)))) / beta;
}

template <class T>
T real_of(const OpCall& call, const char* attribute) {
  return static_cast<T>(call.real(attribute));
}

void add_reading_output(OpTable& table) {
  const auto add = [&](const char* name, auto f, auto slope, Sign sign = Sign::any) {
    add_elementwise(table, {.name = name, .reads = SlopeReads::output, .sign = sign}, f, slope);
  };
  add(
      "sigmoid", [](auto x) { return logistic(x); }, [](auto y) { return y * (1 - y); }, Sign::non_negative);
  add(
      "tanh", [](auto x) { return std::tanh(x); }, [](auto y) { return 1 - y * y; });
  add(
      "exp", [](auto x) { return std::exp(x); }, [](auto y) { return y; }, Sign::non_negative);
  add(
      "sqrt", [](auto x) { return std::sqrt(x); }, [](auto y) { return 1 / (2 * y); });
  add(
      "rsqrt", [](auto x) { return 1 / std::sqrt(x); }, [](auto y) { return -y * y * y / 2; });
  add(
      "reciprocal", [](auto x) { return 1 / x; }, [](auto y) { return -y * y; });
  add_elementwise(
      table, {.name = "elu", .reads = SlopeReads::output, .attributes = {real("alpha", 1)}, .infer = infer_elu},
      [](auto x, const OpCall& call) { return x > 0 ? x : real_of<decltype(x)>(call, "alpha") * std::expm1(x); },
      [](auto y, const OpCall& call) { return y > 0 ? 1 : y + real_of<decltype(y)>(call, "alpha"); });
  add_elementwise(
      table,
      {.name = "softplus", .reads = SlopeReads::output, .attributes = {real("beta", 1)}, .infer = infer_softplus},
      [](auto x, const OpCall& call) { return softplus_of(x, real_of<decltype(x)>(call, "beta")); },
      [](auto y, const OpCall& call) { return -std::expm1(-real_of<decltype(y)>(call, "beta") * y); });
}

void add_reading_input(OpTable& table) {
  const auto add = [&](const char* name, auto f, auto slope) { add_elementwise(table, {.name = name}, f, slope); };
  add(
      "log", [](auto x) { return std::log(x); }, [](auto x) { return 1 / x; });
  add(
      "silu", [](auto x) { return x * logistic(x); }, [](auto x) { return logistic(x) * (1 + x * (1 - logistic(x))); });
  add(
      "gelu", [](auto x) { return x * normal_below(x); }, [](auto x) { return normal_below(x) + x * normal_at(x); });
  add(
      "gelu_tanh", [](auto x) { return x * (1 + std::tanh(gelu_inner(x))) / 2; },
      [](auto x) { return gelu_tanh_slope(x); });
  add(
      "mish", [](auto x) { return x * std::tanh(softplus_of<decltype(x)>(x, 1)); },
      [](auto x) {
        const auto tanh = std::tanh(softplus_of<decltype(x)>(x, 1));
        return tanh + x * logistic(x) * (1 - tanh * tanh);
      });
  add(
      "hard_swish", [](auto x) { return x * std::clamp<decltype(x)>(x / 6 + decltype(x)(0.5), 0, 1); },
      [](auto x) { return x <= -3  ? 0
                          : x >= 3 ? 1
                                   : x / 3 + decltype(x)(0.5); });
  add(
      "sin", [](auto x) { return std::sin(x); }, [](auto x) { return std::cos(x); });
  add(
      "cos", [](auto x) { return std::cos(x); }, [](auto x) { return -std::sin(x); });
  add(
      "erf", [](auto x) { return std::erf(x); },
      [](auto x) { return 2 / std::sqrt(std::numbers::pi_v<decltype(x)>) * std::exp(-x * x); });
  add_elementwise(
      table, {.name = "pow_scalar", .attributes = {{"exponent", AttributeKind::real, {}}}},
      [](auto x, const OpCall& call) { return std::pow(x, real_of<decltype(x)>(call, "exponent")); },
      [](auto x, const OpCall& call) {
        const auto exponent = real_of<decltype(x)>(call, "exponent");
        return exponent == 0 ? 0 : exponent * std::pow(x, exponent - 1);
      });
}

void add_of_numbers(OpTable& table) {
  add_elementwise<true>(
      table, {.name = "abs", .infer = infer_number, .sign = Sign::non_negative}, [](auto x) { return x < 0 ? -x : x; },
      [](auto x) { return static_cast<decltype(x)>((x > 0) - (x < 0)); });
  add_elementwise<true>(
      table, {.name = "square", .infer = infer_number, .sign = Sign::non_negative}, [](auto x) { return x * x; },
      [](auto x) { return 2 * x; });
}

void add_steps(OpTable& table) {
  const auto add_step = [&](const char* name, std::vector<Type> (*infer)(const OpCall&)) {
    table.add({.name = name,
               .inputs = {"x"},
               .infer = infer,
               .gradient = zero_gradient,
               .in_place = {0},
               .traits = {.elementwise = true}});
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
             .in_place = {0},
             .traits = {.elementwise = true}});
  table.add({.name = "affine",
             .inputs = {"x"},
             .attributes = {real("scale", 1), {"divisor", AttributeKind::dim, Attribute(1)}, real("shift", 0)},
             .infer = infer_affine,
             .gradient = differentiate_affine,
             .in_place = {0},
             .traits = {.elementwise = true}});
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
             .in_place = {0},
             .traits = {.elementwise = true}});
}

}  // namespace

void define_elementwise(OpTable& table, const Elementwise& op) {
  const std::string backward = op.name + "_backward";
  const auto differentiate = [backward, reads = op.reads](Gradient& g) {
    const std::array operands = {g.of_output(), reads == SlopeReads::input ? g.input(0) : g.output()};
    g.set(0, g.b.emit(backward, operands, g.attributes()));
  };
  table.add({.name = op.name,
             .inputs = {"x"},
             .attributes = op.attributes,
             .infer = op.infer != nullptr ? op.infer : infer_floating,
             .gradient = differentiate,
             .in_place = {0},
             .traits = {.elementwise = true, .sign = op.sign}});
  table.add({.name = backward,
             .inputs = {"dy", op.reads == SlopeReads::input ? "x" : "y"},
             .attributes = op.attributes,
             .infer = infer_backward,
             .in_place = {0, 1}});
}

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
Value mish(Builder& b, Value x) { return b.emit("mish", {x}); }
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
  add_reading_output(table);
  add_reading_input(table);
  add_of_numbers(table);
  add_steps(table);
  add_linear(table);
  add_copies(table);
}

}  // namespace plimsoll::program
