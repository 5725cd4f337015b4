#include <algorithm>
#include <cmath>

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

// Between low and high; NaN stays.
template <class T>
T clamped(T x, double low, double high) {
  if (x < low) return static_cast<T>(low);
  return x > high ? static_cast<T>(high) : x;
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
      [=](auto x, const OpCall& call) {
        const auto y = line(x, call);
        const bool is_positive = y > 0;
        return y < 1 && is_positive;
      });
  table.reference("mask_backward", [](auto& run) {
    const double set = run.call.real("set");
    const double clear = run.call.real("clear");
    for (size_t i = 0; i < run.reals(0).size(); ++i) {
      const double slope = (run.ints(1)[i / 8] >> (i % 8) & 1) != 0 ? set : clear;
      run.out().reals[i] = slope == 0 ? 0 : run.reals(0)[i] * slope;
    }
  });
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
  register_reading_nothing(table);
  table.reference("cast", [](auto& run) { cast(run); });
}

}  // namespace plimsoll::program
