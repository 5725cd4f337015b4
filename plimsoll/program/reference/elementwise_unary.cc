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

// dx = dy * slope(v), v what the backward op reads
template <class F>
void backward(OpTable& table, const std::string& op, F slope) {
  table.reference(op + "_backward", [slope](auto& run) {
    for (size_t i = 0; i < run.reals(0).size(); ++i) run.out().reals[i] = run.reals(0)[i] * slope(run.reals(1)[i]);
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

void register_relu(OpTable& table) {
  table.reference("relu", [](auto& run) {
    const auto& x = run.reals(0);
    for (size_t i = 0; i < x.size(); ++i) {
      run.out().reals[i] = x[i] > 0 || std::isnan(x[i]) ? x[i] : 0;
      if (run.wants(1) && x[i] > 0) run.out(1).ints[i / 8] |= 1 << (i % 8);
    }
  });
  table.reference("mask_backward", [](auto& run) {
    for (size_t i = 0; i < run.reals(0).size(); ++i) {
      run.out().reals[i] = (run.ints(1)[i / 8] >> (i % 8) & 1) != 0 ? run.reals(0)[i] : 0;
    }
  });
}

}  // namespace

void register_elementwise_unary_reference(OpTable& table) {
  register_relu(table);
  unary(table, "neg", [](auto x) { return -x; });
  unary(table, "sigmoid", [](auto x) { return sigmoid(x); });
  backward(table, "sigmoid", [](auto y) { return y * (1 - y); });
  unary(table, "tanh", [](auto x) { return std::tanh(x); });
  backward(table, "tanh", [](auto y) { return 1 - y * y; });
  unary(table, "exp", [](auto x) { return std::exp(x); });
  backward(table, "exp", [](auto y) { return y; });
  unary(table, "sqrt", [](auto x) { return std::sqrt(x); });
  backward(table, "sqrt", [](auto y) { return 1 / (2 * y); });
  unary(table, "log", [](auto x) { return std::log(x); });
  backward(table, "log", [](auto x) { return 1 / x; });
  unary(table, "silu", [](auto x) { return x * sigmoid(x); });
  backward(table, "silu", [](auto x) { return sigmoid(x) * (1 + x * (1 - sigmoid(x))); });
  unary(table, "gelu", [](auto x) { return x * normal_below(x); });
  backward(table, "gelu", [](auto x) { return normal_below(x) + x * normal_at(x); });
}

}  // namespace plimsoll::program
