#include <algorithm>
#include <cmath>
#include <numbers>

#include "plimsoll/program/evaluate.h"

namespace plimsoll::program {
namespace {

// y = f(x)
template <class F>
void unary(OpTable& table, const std::string& op, F f) {
  table.reference(op, [f](auto& run) {
    for (size_t i = 0; i < run.reals(0).size(); ++i) run.out().reals[i] = f(run.reals(0)[i]);
  });
}

// y = f(x), also for integers
template <class F>
void unary_number(OpTable& table, const std::string& op, F f) {
  table.reference(op, [f](auto& run) {
    std::transform(run.reals(0).begin(), run.reals(0).end(), run.out().reals.begin(), f);
    std::transform(run.ints(0).begin(), run.ints(0).end(), run.out().ints.begin(), f);
  });
}

// dx = dy * slope(v), v what the backward op reads
template <class F>
void backward(OpTable& table, const std::string& op, F slope) {
  table.reference(op + "_backward", [slope](auto& run) {
    for (size_t i = 0; i < run.reals(0).size(); ++i) run.out().reals[i] = run.reals(0)[i] * slope(run.reals(1)[i]);
  });
}

// y = f(x, a) and dx = dy * slope(v, a), a the attribute `attribute`
template <class F, class G>
void unary_with(OpTable& table, const std::string& op, const char* attribute, F f, G slope) {
  table.reference(op, [=](auto& run) {
    const typename std::decay_t<decltype(run)>::Real a = run.call.real(attribute);
    for (size_t i = 0; i < run.reals(0).size(); ++i) run.out().reals[i] = f(run.reals(0)[i], a);
  });
  table.reference(op + "_backward", [=](auto& run) {
    const typename std::decay_t<decltype(run)>::Real a = run.call.real(attribute);
    for (size_t i = 0; i < run.reals(0).size(); ++i) run.out().reals[i] = run.reals(0)[i] * slope(run.reals(1)[i], a);
  });
}

// y = f(x, call), and a bit for each element that says whether x is `inside`
template <class F, class G>
void masked(OpTable& table, const std::string& op, F f, G inside) {
  table.reference(op, [=](auto& run) {
    const auto& x = run.reals(0);
    for (size_t i = 0; i < x.size(); ++i) {
      run.out().reals[i] = f(x[i], run.call);
      if (run.wants(1) && inside(x[i], run.call)) run.out(1).ints[i / 8] |= 1 << (i % 8);
    }
  });
}

template <class T>
T sigmoid(T x) {
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

// Between low and high; NaN stays.
template <class T>
T clamped(T x, double low, double high) {
  if (x < low) return static_cast<T>(low);
  return x > high ? static_cast<T>(high) : x;
}

template <class T>
T softplus(T x, T beta) {
  return (std::max(beta * x, T(0)) + std::log1p(std::exp(-std::abs(beta * x)))) / beta;
}

template <class T>
T sign(T x) {
  return static_cast<T>((x > 0) - (x < 0));
}

void register_masked(OpTable& table) {
  const auto positive = [](auto x, const OpCall&) { return x > 0; };
  masked(
      table, "relu", [](auto x, const OpCall&) { return x > 0 || std::isnan(x) ? x : 0; }, positive);
  masked(
      table, "leaky_relu",
      [](auto x, const OpCall& call) { return static_cast<decltype(x)>(x > 0 ? x : x * call.real("slope")); },
      positive);
  masked(
      table, "clamp", [](auto x, const OpCall& call) { return clamped(x, call.real("low"), call.real("high")); },
      [](auto x, const OpCall& call) { return x > call.real("low") && x < call.real("high"); });
  const auto line = [](auto x, const OpCall& call) { return call.real("scale") * x + call.real("shift"); };
  masked(
      table, "hard_sigmoid",
      [=](auto x, const OpCall& call) { return static_cast<decltype(x)>(clamped(line(x, call), 0, 1)); },
      [=](auto x, const OpCall& call) { return line(x, call) > 0 && line(x, call) < 1; });
  table.reference("mask_backward", [](auto& run) {
    const double set = run.call.real("set");
    const double clear = run.call.real("clear");
    for (size_t i = 0; i < run.reals(0).size(); ++i) {
      const double slope = (run.ints(1)[i / 8] >> (i % 8) & 1) != 0 ? set : clear;
      run.out().reals[i] = slope == 0 ? 0 : run.reals(0)[i] * slope;
    }
  });
}

void register_reading_output(OpTable& table) {
  unary(table, "sigmoid", [](auto x) { return sigmoid(x); });
  backward(table, "sigmoid", [](auto y) { return y * (1 - y); });
  unary(table, "tanh", [](auto x) { return std::tanh(x); });
  backward(table, "tanh", [](auto y) { return 1 - y * y; });
  unary(table, "exp", [](auto x) { return std::exp(x); });
  backward(table, "exp", [](auto y) { return y; });
  unary(table, "sqrt", [](auto x) { return std::sqrt(x); });
  backward(table, "sqrt", [](auto y) { return 1 / (2 * y); });
  unary(table, "rsqrt", [](auto x) { return 1 / std::sqrt(x); });
  backward(table, "rsqrt", [](auto y) { return -y * y * y / 2; });
  unary(table, "reciprocal", [](auto x) { return 1 / x; });
  backward(table, "reciprocal", [](auto y) { return -y * y; });
  unary_with(
      table, "elu", "alpha", [](auto x, auto alpha) { return x > 0 ? x : alpha * std::expm1(x); },
      [](auto y, auto alpha) { return y > 0 ? 1 : y + alpha; });
  unary_with(
      table, "softplus", "beta", [](auto x, auto beta) { return softplus(x, beta); },
      [](auto y, auto beta) { return -std::expm1(-beta * y); });
}

void register_reading_input(OpTable& table) {
  unary(table, "log", [](auto x) { return std::log(x); });
  backward(table, "log", [](auto x) { return 1 / x; });
  unary(table, "silu", [](auto x) { return x * sigmoid(x); });
  backward(table, "silu", [](auto x) { return sigmoid(x) * (1 + x * (1 - sigmoid(x))); });
  unary(table, "gelu", [](auto x) { return x * normal_below(x); });
  backward(table, "gelu", [](auto x) { return normal_below(x) + x * normal_at(x); });
  unary(table, "gelu_tanh", [](auto x) { return x * (1 + std::tanh(gelu_inner(x))) / 2; });
  backward(table, "gelu_tanh", [](auto x) { return gelu_tanh_slope(x); });
  unary(table, "hard_swish", [](auto x) { return x * clamped(x / 6 + decltype(x)(0.5), 0, 1); });
  backward(table, "hard_swish", [](auto x) { return x <= -3 ? 0 : x >= 3 ? 1 : x / 3 + decltype(x)(0.5); });
  unary(table, "sin", [](auto x) { return std::sin(x); });
  backward(table, "sin", [](auto x) { return std::cos(x); });
  unary(table, "cos", [](auto x) { return std::cos(x); });
  backward(table, "cos", [](auto x) { return -std::sin(x); });
  unary(table, "erf", [](auto x) { return std::erf(x); });
  backward(table, "erf", [](auto x) { return 2 / std::sqrt(std::numbers::pi_v<decltype(x)>) * std::exp(-x * x); });
  unary_number(table, "abs", [](auto x) { return x < 0 ? -x : x; });
  backward(table, "abs", [](auto x) { return sign(x); });
  unary_number(table, "square", [](auto x) { return x * x; });
  backward(table, "square", [](auto x) { return 2 * x; });
  unary_with(
      table, "pow_scalar", "exponent", [](auto x, auto exponent) { return std::pow(x, exponent); },
      [](auto x, auto exponent) { return exponent == 0 ? 0 : exponent * std::pow(x, exponent - 1); });
}

void register_reading_nothing(OpTable& table) {
  unary_number(table, "neg", [](auto x) { return -x; });
  unary_number(table, "sign", [](auto x) { return sign(x); });
  unary(table, "floor", [](auto x) { return std::floor(x); });
  unary(table, "ceil", [](auto x) { return std::ceil(x); });
  unary(table, "round", [](auto x) { return std::nearbyint(x); });
  table.reference("affine", [](auto& run) {
    const double factor = run.call.real("scale") / static_cast<double>(run.call.integer("divisor"));
    for (size_t i = 0; i < run.reals(0).size(); ++i) {
      run.out().reals[i] = run.reals(0)[i] * factor + run.call.real("shift");
    }
  });
  table.reference("identity", [](auto& run) {
    run.out().reals = run.reals(0);
    run.out().ints = run.ints(0);
  });
}

// From numbers of one kind to numbers of the other, as `dtype` holds them.
template <class From, class To>
void convert(const From& from, To& to, DType dtype) {
  for (size_t i = 0; i < from.size(); ++i) {
    to[i] = dtype == DType::boolean ? from[i] != 0 : static_cast<typename To::value_type>(from[i]);
  }
}

template <class T>
void cast(Run<T>& run) {
  auto& y = run.out();
  if (is_floating(y.dtype)) {
    convert(run.reals(0), y.reals, y.dtype);
    convert(run.ints(0), y.reals, y.dtype);
  } else {
    convert(run.reals(0), y.ints, y.dtype);
    convert(run.ints(0), y.ints, y.dtype);
  }
}

}  // namespace

void register_elementwise_unary_reference(OpTable& table) {
  register_masked(table);
  register_reading_output(table);
  register_reading_input(table);
  register_reading_nothing(table);
  table.reference("cast", [](auto& run) { cast(run); });
}

}  // namespace plimsoll::program
