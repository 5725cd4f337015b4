// Element-wise ops of numbers.
#include <cmath>
#include <numbers>

#include "plimsoll/models/onnx/heads.h"
#include "plimsoll/models/onnx/products.h"
#include "plimsoll/program/ops/along_axis.h"
#include "plimsoll/program/ops/elementwise_binary.h"
#include "plimsoll/program/ops/elementwise_unary.h"
#include "plimsoll/program/ops/index.h"
#include "plimsoll/program/ops/shape.h"
#include "plimsoll/program/ops/softmax.h"

namespace plimsoll::models::onnx_import {
namespace {

namespace p = program;

template <Value (*F)(Builder&, Value)>
void unary(NodeCall& call) {
  call.set_same(F(call.b, call.value(0)));
}

template <Value (*F)(Builder&, Value)>
void unary_on_reals(NodeCall& call) {  // integers stay as they are
  call.is_real(0) ? call.set_same(F(call.b, call.value(0))) : call.set(0, call.tensor(0));
}

// Kernels of one operand are for reals.
void import_neg(NodeCall& call) {
  if (call.is_real(0)) return unary<p::neg>(call);
  call.set_same(call.wrapped(p::sub(call.b, call.scalar(0, DType::i64), call.value(0)), call.element_type(0)));
}
void import_abs(NodeCall& call) {
  if (call.is_real(0)) return unary<p::abs>(call);
  const Value x = call.value(0);
  const Value turned = p::sub(call.b, call.scalar(0, DType::i64), x);
  call.set_same(p::where(call.b, p::lt(call.b, x, turned), turned, x));
}
void import_sign(NodeCall& call) {
  if (call.is_real(0)) return unary<p::sign>(call);
  Builder& b = call.b;
  const Value x = call.value(0);
  const Value zero = call.scalar(0, DType::i64);
  call.set_same(p::sub(b, p::cast(b, p::gt(b, x, zero), DType::i64), p::cast(b, p::lt(b, x, zero), DType::i64)));
}

// Before version 7 the second operand was aligned where an attribute said.
Value second_operand(NodeCall& call) {
  if (call.opset >= 7 || !call.flag("broadcast")) return call.compact(1);
  const int rank = call.rank(0);
  const int axis = call.attribute("axis") == nullptr ? rank - call.rank(1) : call.axis(call.integer("axis", 0), rank);
  Dims dims = call.shape(1);
  while (dims.rank() + axis < rank) dims.push_back(1);
  return p::reshape(call.b, call.value(1), dims);
}

template <Value (*F)(Builder&, Value, Value)>
void binary(NodeCall& call) {
  const Value y = F(call.b, call.compact(0), second_operand(call));
  call.set_same(call.wrapped(y, call.element_type(0)));
}

void import_add(NodeCall& call) {
  const Value y = sum_of(call, call.compact(0), second_operand(call));
  call.set_same(call.wrapped(y, call.element_type(0)));
}

// Towards zero. A second division of what is left makes up for the rounding of the first.
Value divide_integers(NodeCall& call, Value a, Value z) {
  Builder& b = call.b;
  const Value wide = p::cast(b, z, DType::f32);
  const Value first = p::cast(b, p::div(b, p::cast(b, a, DType::f32), wide), DType::i64);
  const Value left = p::sub(b, a, p::mul(b, first, z));
  return p::add(b, first, p::cast(b, p::div(b, p::cast(b, left, DType::f32), wide), DType::i64));
}

void import_div(NodeCall& call) {
  if (call.is_real(0)) return binary<p::div>(call);
  call.set_same(divide_integers(call, call.compact(0), second_operand(call)));
}

// With the sign of the divisor, or with that of the dividend as C's fmod.
void import_mod(NodeCall& call) {
  Builder& b = call.b;
  const Value x = call.compact(0);
  const Value z = call.compact(1);
  if (!call.is_real(0)) {
    Value rest = p::sub(b, x, p::mul(b, divide_integers(call, x, z), z));
    if (!call.flag("fmod")) {
      const Value zero = call.scalar(0, DType::i64);
      const Value other = p::logical_and(b, p::ne(b, rest, zero), p::ne(b, p::lt(b, rest, zero), p::lt(b, z, zero)));
      rest = p::where(b, other, p::add(b, rest, z), rest);
    }
    return call.set_same(rest);
  }
  const Value quotient = p::div(b, x, z);
  call.require(call.flag("fmod"), "of reals only with fmod=1");
  const Value zero = call.scalar(0, call.dtype(0));
  const Value whole = p::where(b, p::lt(b, quotient, zero), p::ceil(b, quotient), p::floor(b, quotient));
  call.set_same(p::sub(b, x, p::mul(b, whole, z)));
}

void import_pow(NodeCall& call) {
  Builder& b = call.b;
  const DType dtype = call.in.net.dtype();
  if (const HostTensor* exponent = call.try_host(1);
      exponent != nullptr && call.is_real(0) && exponent->count() == 1 && exponent->dims.elements() == Dim(1)) {
    const double power = exponent->is_real() ? exponent->reals[0] : static_cast<double>(exponent->ints[0].constant());
    const Value x = call.value(0);
    if (exponent->dims.rank() <= call.rank(0)) {
      return call.set_same(power == 2 ? p::square(b, x) : p::pow(b, x, power));
    }
  }
  const Value power = p::pow(b, call.as(call.compact(0), dtype), call.as(call.compact(1), dtype));
  call.set_same(call.is_real(0) ? power : p::cast(b, p::round(b, power), DType::i64));
}

template <Value (*F)(Builder&, Value, Value)>
void variadic(NodeCall& call) {
  Value all = call.inputs() == 1 ? call.value(0) : call.compact(0);
  for (int i = 1; i < call.inputs(); ++i) all = F(call.b, all, call.compact(i));
  call.set_same(all);
}

// Kernels choose between reals; integers are compared.
Value larger(Builder& b, Value x, Value z) {
  return is_floating(b.type(x).dtype) ? p::maximum(b, x, z) : p::where(b, p::gt(b, x, z), x, z);
}
Value smaller(Builder& b, Value x, Value z) {
  return is_floating(b.type(x).dtype) ? p::minimum(b, x, z) : p::where(b, p::lt(b, x, z), x, z);
}

void import_mean(NodeCall& call) {
  Value sum = call.inputs() == 1 ? call.value(0) : call.compact(0);
  for (int i = 1; i < call.inputs(); ++i) sum = p::add(call.b, sum, call.compact(i));
  call.set_same(p::affine(call.b, sum, {.divisor = call.inputs()}));
}

void import_identity(NodeCall& call) { call.set(0, call.tensor(0)); }

void import_tan(NodeCall& call) {
  const Value x = call.value(0);
  call.set_same(p::div(call.b, p::sin(call.b, x), p::cos(call.b, x)));
}

Value half_of_exponentials(NodeCall& call, bool minus) {
  Builder& b = call.b;
  const Value up = p::exp(b, call.value(0));
  const Value down = p::reciprocal(b, up);
  return p::affine(b, minus ? p::sub(b, up, down) : p::add(b, up, down), {.scale = 0.5});
}
void import_sinh(NodeCall& call) { call.set_same(half_of_exponentials(call, true)); }
void import_cosh(NodeCall& call) { call.set_same(half_of_exponentials(call, false)); }

void import_asinh(NodeCall& call) {
  Builder& b = call.b;
  const Value x = call.value(0);
  const Value root = p::sqrt(b, p::affine(b, p::square(b, x), {.shift = 1}));
  call.set_same(p::mul(b, p::sign(b, x), p::log(b, p::add(b, p::abs(b, x), root))));
}
void import_acosh(NodeCall& call) {
  Builder& b = call.b;
  const Value x = call.value(0);
  call.set_same(p::log(b, p::add(b, x, p::sqrt(b, p::affine(b, p::square(b, x), {.shift = -1})))));
}
void import_atanh(NodeCall& call) {
  Builder& b = call.b;
  const Value x = call.value(0);
  const Value ratio = p::div(b, p::affine(b, x, {.shift = 1}), p::affine(b, x, {.scale = -1, .shift = 1}));
  call.set_same(p::affine(b, p::log(b, ratio), {.scale = 0.5}));
}

// By reduction to at most tan(pi / 8) and a polynomial there; within 2e-7.
Value arc_tangent(NodeCall& call, Value x) {
  Builder& b = call.b;
  const DType dtype = call.in.net.dtype();
  const Value size = p::abs(b, x);
  const Value large = p::gt(b, size, call.scalar(std::numbers::sqrt2 + 1, dtype));
  const Value middle = p::gt(b, size, call.scalar(std::numbers::sqrt2 - 1, dtype));
  const Value turned = p::neg(b, p::reciprocal(b, size));
  const Value moved = p::div(b, p::affine(b, size, {.shift = -1}), p::affine(b, size, {.shift = 1}));
  const Value z = p::where(b, large, turned, p::where(b, middle, moved, size));
  const auto constant = [&](double value) { return call.scalar(value, dtype); };
  const Value base = p::where(b, large, constant(std::numbers::pi / 2),
                              p::where(b, middle, constant(std::numbers::pi / 4), constant(0)));
  const Value square = p::square(b, z);
  Value sum = p::affine(b, square, {.scale = 8.05374449538e-2, .shift = -1.38776856032e-1});
  sum = p::affine(b, p::mul(b, sum, square), {.shift = 1.99777106478e-1});
  sum = p::affine(b, p::mul(b, sum, square), {.shift = -3.33329491539e-1});
  sum = p::add(b, p::mul(b, p::mul(b, sum, square), z), z);
  return p::mul(b, p::sign(b, x), p::add(b, base, sum));
}
void import_atan(NodeCall& call) { call.set_same(arc_tangent(call, call.value(0))); }

Value arc_sine(NodeCall& call, Value x) {
  Builder& b = call.b;
  const Value other = p::sqrt(b, p::affine(b, p::square(b, x), {.scale = -1, .shift = 1}));
  return arc_tangent(call, p::div(b, x, other));
}
void import_asin(NodeCall& call) { call.set_same(arc_sine(call, call.value(0))); }
void import_acos(NodeCall& call) {
  call.set_same(p::affine(call.b, arc_sine(call, call.value(0)), {.scale = -1, .shift = std::numbers::pi / 2}));
}

void import_leaky_relu(NodeCall& call) {
  call.set_same(p::leaky_relu(call.b, call.value(0), call.real("alpha", 0.01)));
}
void import_elu(NodeCall& call) { call.set_same(p::elu(call.b, call.value(0), call.real("alpha", 1))); }
void import_selu(NodeCall& call) {
  const Value elu = p::elu(call.b, call.value(0), call.real("alpha", 1.67326319217681884765625));
  call.set_same(p::affine(call.b, elu, {.scale = call.real("gamma", 1.05070102214813232421875)}));
}
void import_celu(NodeCall& call) {
  const double alpha = call.real("alpha", 1);
  const Value elu = p::elu(call.b, p::affine(call.b, call.value(0), {.scale = 1 / alpha}), 1);
  call.set_same(p::affine(call.b, elu, {.scale = alpha}));
}
void import_prelu(NodeCall& call) {
  Builder& b = call.b;
  const Value x = call.value(0);
  Value slope = call.compact(1);
  if (b.shape(slope).rank() == 1 && call.rank(0) > 2 && b.shape(slope)[0] == call.shape(0)[1] && call.opset < 7) {
    Dims dims = {b.shape(slope)[0]};
    for (int i = 2; i < call.rank(0); ++i) dims.push_back(1);
    slope = p::reshape(b, slope, dims);
  }
  call.set_same(p::where(b, p::lt(b, x, call.scalar(0, call.dtype(0))), p::mul(b, x, slope), x));
}
void import_thresholded_relu(NodeCall& call) {
  const Value x = call.value(0);
  const Value above = p::gt(call.b, x, call.scalar(call.real("alpha", 1), call.dtype(0)));
  call.set_same(p::keep_where(call.b, x, above));
}
void import_shrink(NodeCall& call) {
  Builder& b = call.b;
  const Value x = call.as(call.value(0), call.in.net.dtype());
  const double bias = call.real("bias", 0);
  const double lambda = call.real("lambd", 0.5);
  const DType dtype = call.in.net.dtype();
  const Value low = p::keep_where(b, p::affine(b, x, {.shift = bias}), p::lt(b, x, call.scalar(-lambda, dtype)));
  const Value high = p::keep_where(b, p::affine(b, x, {.shift = -bias}), p::gt(b, x, call.scalar(lambda, dtype)));
  call.set_same(call.as(p::add(b, low, high), call.dtype(0)));
}
void import_hard_sigmoid(NodeCall& call) {
  call.set_same(p::hard_sigmoid(call.b, call.value(0), call.real("alpha", 0.2), call.real("beta", 0.5)));
}
void import_softplus(NodeCall& call) { call.set_same(p::softplus(call.b, call.value(0))); }
void import_softsign(NodeCall& call) {
  const Value x = call.value(0);
  call.set_same(p::div(call.b, x, p::affine(call.b, p::abs(call.b, x), {.shift = 1})));
}
void import_mish(NodeCall& call) {
  const Value x = call.value(0);
  call.set_same(p::mul(call.b, x, p::tanh(call.b, p::softplus(call.b, x))));
}
void import_gelu(NodeCall& call) {
  const bool by_tanh = call.text("approximate", "none") == "tanh";
  call.set_same(by_tanh ? p::gelu_tanh(call.b, call.value(0)) : p::gelu(call.b, call.value(0)));
}
void import_swish(NodeCall& call) {
  const Value x = call.value(0);
  const double alpha = call.real("alpha", 1);
  if (alpha == 1) return call.set_same(p::silu(call.b, x));
  call.set_same(p::mul(call.b, x, p::sigmoid(call.b, p::affine(call.b, x, {.scale = alpha}))));
}

// Bounds that are numbers become attributes; others are compared with.
void import_clip(NodeCall& call) {
  Builder& b = call.b;
  Value x = call.value(0);
  double bounds[2] = {call.real("min", -INFINITY), call.real("max", INFINITY)};
  bool is_known[2] = {true, true};
  for (int i = 1; i <= 2; ++i) {
    if (!call.has(i)) continue;
    is_known[i - 1] = call.try_host(i) != nullptr;
    if (is_known[i - 1]) bounds[i - 1] = call.real_of(i, i == 1 ? "min" : "max");
  }
  if (call.is_real(0) && is_known[0] && is_known[1] && bounds[0] <= bounds[1]) {
    return call.set_same(p::clamp(b, x, bounds[0], bounds[1]));
  }
  const auto bound = [&](int i) { return call.has(i) ? call.compact(i) : call.scalar(bounds[i - 1], call.dtype(0)); };
  if (call.has(1) || std::isfinite(bounds[0])) x = larger(b, x, bound(1));
  if (call.has(2) || std::isfinite(bounds[1])) x = smaller(b, x, bound(2));
  call.set_same(x);
}

// Before version 13 all dimensions from the axis on were one.
Value with_flat_axis(NodeCall& call, Value (*f)(Builder&, Value, int)) {
  Builder& b = call.b;
  const Value x = f == p::softmax ? with_added_mask(call, call.value(0)) : call.value(0);
  const int rank = call.rank(0);
  if (call.opset >= 13 || rank == 0) return f(b, x, static_cast<int>(call.integer("axis", -1)));
  const int axis = call.axis(call.integer("axis", 1), rank);
  if (axis == rank - 1) return f(b, x, axis);
  return p::reshape(b, f(b, p::flatten(b, x, axis), 1), call.shape(0));
}
void import_softmax(NodeCall& call) { call.set_same(with_flat_axis(call, p::softmax)); }
void import_log_softmax(NodeCall& call) { call.set_same(with_flat_axis(call, p::log_softmax)); }

Value hard_max(Builder& b, Value x, int axis) {
  const int rank = b.shape(x).rank();
  const int place = axis < 0 ? axis + rank : axis;
  const Value hot = p::one_hot(b, p::argmax(b, x, place), b.shape(x)[place], b.type(x).dtype);
  if (place == rank - 1) return hot;
  Dims axes;
  for (int i = 0; i < rank - 1; ++i) {
    if (i == place) axes.push_back(rank - 1);
    axes.push_back(i);
  }
  return p::transpose(b, hot, axes);
}
void import_hardmax(NodeCall& call) { call.set_same(with_flat_axis(call, hard_max)); }

constexpr RuleEntry kMathRules[] = {
    {"Abs", import_abs},
    {"Neg", import_neg},
    {"Sign", import_sign},
    {"Floor", unary_on_reals<p::floor>},
    {"Ceil", unary_on_reals<p::ceil>},
    {"Round", unary_on_reals<p::round>},
    {"Exp", unary<p::exp>},
    {"Log", unary<p::log>},
    {"Sqrt", unary<p::sqrt>},
    {"Reciprocal", unary<p::reciprocal>},
    {"Sin", unary<p::sin>},
    {"Cos", unary<p::cos>},
    {"Erf", unary<p::erf>},
    {"Tanh", unary<p::tanh>},
    {"Sigmoid", unary<p::sigmoid>},
    {"Relu", unary<p::relu>},
    {"HardSwish", unary<p::hard_swish>},
    {"Identity", import_identity},
    {"Add", import_add},
    {"Sub", binary<p::sub>},
    {"Mul", binary<p::mul>},
    {"Div", import_div},
    {"Mod", import_mod},
    {"Pow", import_pow},
    {"Max", variadic<larger>},
    {"Min", variadic<smaller>},
    {"Sum", variadic<p::add>},
    {"Mean", import_mean},
    {"Tan", import_tan},
    {"Sinh", import_sinh},
    {"Cosh", import_cosh},
    {"Asinh", import_asinh},
    {"Acosh", import_acosh},
    {"Atanh", import_atanh},
    {"Atan", import_atan},
    {"Asin", import_asin},
    {"Acos", import_acos},
    {"LeakyRelu", import_leaky_relu},
    {"Elu", import_elu},
    {"Selu", import_selu},
    {"Celu", import_celu},
    {"PRelu", import_prelu},
    {"ThresholdedRelu", import_thresholded_relu},
    {"Shrink", import_shrink},
    {"HardSigmoid", import_hard_sigmoid},
    {"Softplus", import_softplus},
    {"Softsign", import_softsign},
    {"Mish", import_mish},
    {"Gelu", import_gelu},
    {"Swish", import_swish},
    {"Clip", import_clip},
    {"Softmax", import_softmax},
    {"LogSoftmax", import_log_softmax},
    {"Hardmax", import_hardmax},
};

}  // namespace

RuleFamily math_rules() { return {"", kMathRules}; }

}  // namespace plimsoll::models::onnx_import
