#include <algorithm>
#include <cmath>
#include <limits>

#include "plimsoll/program/evaluate.h"
#include "plimsoll/program/reference/window.h"

namespace plimsoll::program {
namespace {

// Windows as an op sees them: x and y are spatial shapes of input and result.
struct Plane {
  Shape x;
  Shape y;
  std::vector<Tap> taps;
};

Window window_over(const OpCall& call, int rank) { return window_of(call, spread_over(call, "kernel", rank, 0)); }

Plane sliding(const OpCall& call, const Shape& x, const Shape& y) {
  const Shape from = spatial(x);
  return {from, spatial(y), taps_of(window_over(call, from.rank()), from, spatial(y))};
}

// Window i of n over m elements goes from floor(i * m / n) to ceil((i + 1) * m / n). `inside` is the place in the
// plane.
Plane adaptive(const OpCall& /*call*/, const Shape& x, const Shape& y) {
  Plane plane{spatial(x), spatial(y), {}};
  for_each_index(plane.y, [&](const Index& at, size_t window) {
    for_each_index(plane.x, [&](const Index& from, size_t place) {
      bool inside = true;
      for (int axis = 0; axis < plane.x.rank(); ++axis) {
        const int64_t i = at[static_cast<size_t>(axis)];
        const int64_t m = plane.x[axis];
        const int64_t n = plane.y[axis];
        const int64_t j = from[static_cast<size_t>(axis)];
        inside = inside && j >= i * m / n && j * n < (i + 1) * m;
      }
      if (inside) plane.taps.push_back({window, place, place});
    });
  });
  return plane;
}

// Calls visit(tap, place in x, place in y) for every tap of every plane of an array of `planes` of them.
template <class F>
void for_each_tap(const Plane& plane, int64_t planes, F visit) {
  for (int64_t p = 0; p < planes; ++p) {
    for (const Tap& tap : plane.taps) {
      visit(tap, static_cast<size_t>(p * plane.x.elements()) + tap.x,
            static_cast<size_t>(p * plane.y.elements()) + tap.window);
    }
  }
}

template <class T>
void take_maximum(Run<T>& run, const Plane& plane) {
  auto& y = run.out().reals;
  std::vector<int64_t> indices(y.size(), -1);
  std::fill(y.begin(), y.end(), -std::numeric_limits<T>::infinity());
  for_each_tap(plane, run.shape(0)[0] * run.shape(0)[1], [&](const Tap& tap, size_t from, size_t to) {
    const T x = run.reals(0)[from];
    if (indices[to] >= 0 && !(x > y[to]) && !std::isnan(x)) return;
    y[to] = x;
    indices[to] = static_cast<int64_t>(tap.inside);
  });
  for (int64_t& index : indices) index = std::max<int64_t>(index, 0);  // a window that sees only padding
  if (run.wants(1)) run.out(1).ints = indices;
}

template <class T>
void give_to_maximum(Run<T>& run, const Plane& plane) {
  for_each_tap(plane, run.shape(0)[0] * run.shape(0)[1], [&](const Tap& tap, size_t to, size_t from) {
    if (run.ints(1)[from] == static_cast<int64_t>(tap.inside)) run.out().reals[to] += run.reals(0)[from];
  });
}

// By what the sum of each window of a plane is divided.
using Divisors = std::vector<int64_t>;

Divisors counts(const OpCall& /*call*/, const Plane& plane) {
  Divisors divisors(static_cast<size_t>(plane.y.elements()), 0);
  for (const Tap& tap : plane.taps) ++divisors[tap.window];
  return divisors;
}

// Elements of window `at` along one dimension that are in x or its padding.
int64_t padded_count(const Window& window, int axis, int64_t at, int64_t size) {
  int64_t count = 0;
  for (int64_t k = 0; k < window.kernel[axis].constant(); ++k) {
    const int64_t from = at * window.stride[axis].constant() + k * window.dilation[axis].constant();
    if (from < size + window.begin[axis].constant() + window.end[axis].constant()) ++count;
  }
  return count;
}

Divisors padded_counts(const OpCall& call, const Plane& plane) {
  if (!call.flag("count_include_pad")) return counts(call, plane);
  const Window window = window_over(call, plane.x.rank());
  Divisors divisors(static_cast<size_t>(plane.y.elements()), 1);
  for_each_index(plane.y, [&](const Index& at, size_t place) {
    for (int axis = 0; axis < plane.y.rank(); ++axis) {
      divisors[place] *= padded_count(window, axis, at[static_cast<size_t>(axis)], plane.x[axis]);
    }
  });
  return divisors;
}

template <class T>
void take_average(Run<T>& run, const Plane& plane, const Divisors& divisors) {
  for_each_tap(plane, run.shape(0)[0] * run.shape(0)[1], [&](const Tap& tap, size_t from, size_t to) {
    run.out().reals[to] += run.reals(0)[from] / static_cast<T>(divisors[tap.window]);
  });
}

template <class T>
void share_out_average(Run<T>& run, const Plane& plane, const Divisors& divisors) {
  for_each_tap(plane, run.shape(0)[0] * run.shape(0)[1], [&](const Tap& tap, size_t to, size_t from) {
    run.out().reals[to] += run.reals(0)[from] / static_cast<T>(divisors[tap.window]);
  });
}

using PlaneRule = Plane (*)(const OpCall&, const Shape&, const Shape&);
using DivisorRule = Divisors (*)(const OpCall&, const Plane&);

void register_maximum(OpTable& table, const std::string& op, PlaneRule windows) {
  table.reference(op, [windows](auto& run) { take_maximum(run, windows(run.call, run.shape(0), run.out().shape)); });
  table.reference(op + "_backward",
                  [windows](auto& run) { give_to_maximum(run, windows(run.call, run.out().shape, run.shape(0))); });
}

void register_average(OpTable& table, const std::string& op, PlaneRule windows, DivisorRule divisors) {
  table.reference(op, [=](auto& run) {
    const Plane plane = windows(run.call, run.shape(0), run.out().shape);
    take_average(run, plane, divisors(run.call, plane));
  });
  table.reference(op + "_backward", [=](auto& run) {
    const Plane plane = windows(run.call, run.out().shape, run.shape(0));
    share_out_average(run, plane, divisors(run.call, plane));
  });
}

}  // namespace

void register_pool_reference(OpTable& table) {
  register_maximum(table, "max_pool", sliding);
  register_maximum(table, "adaptive_max_pool", adaptive);
  register_average(table, "avg_pool", sliding, padded_counts);
  register_average(table, "adaptive_avg_pool", adaptive, counts);
}

}  // namespace plimsoll::program
