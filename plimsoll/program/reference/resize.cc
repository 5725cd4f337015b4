#include <algorithm>
#include <cmath>

#include "plimsoll/program/evaluate.h"
#include "plimsoll/program/reference/index.h"

namespace plimsoll::program {
namespace {

// Where an element of one dimension of y comes from: (1 - part) of one element of x and part of the next.
struct Source {
  int64_t first;
  int64_t second;
  double part;
};

Source nearest(const OpCall& call, int64_t i, int64_t from, int64_t to) {
  const double scale = call.real("scale");
  const int64_t at = scale > 0 ? static_cast<int64_t>(std::floor(static_cast<double>(i) / scale)) : i * from / to;
  const int64_t first = std::min(at, from - 1);
  return {first, first, 0};
}

double linear_coordinate(const OpCall& call, double i, double from, double to) {
  if (call.flag("align_corners")) return to > 1 ? i * (from - 1) / (to - 1) : 0;
  const double scale = call.real("scale");
  return std::max((i + 0.5) * (scale > 0 ? 1 / scale : from / to) - 0.5, 0.0);
}

Source source(const OpCall& call, int64_t i, int64_t from, int64_t to) {
  if (call.word("mode") == "nearest") return nearest(call, i, from, to);
  const double at = linear_coordinate(call, static_cast<double>(i), static_cast<double>(from), static_cast<double>(to));
  const int64_t first = std::min(static_cast<int64_t>(at), from - 1);
  return {first, std::min(first + 1, from - 1), at - static_cast<double>(first)};
}

// Calls visit(place in x, place in y, weight) for all that each element of y is made of.
template <class F>
void for_each_source(const OpCall& call, const Shape& x, const Shape& y, F visit) {
  for_each_index(y, [&](const Index& index, size_t place) {
    for (unsigned corner = 0; corner < 1U << (y.rank() - 2); ++corner) {
      Index from = index;
      double weight = 1;
      for (int axis = 2; axis < y.rank(); ++axis) {
        int64_t& at = from[static_cast<size_t>(axis)];
        const Source s = source(call, at, x[axis], y[axis]);
        const bool second = (corner >> (axis - 2) & 1) != 0;
        at = second ? s.second : s.first;
        weight *= second ? s.part : 1 - s.part;
      }
      if (weight != 0) visit(place_of(x, from), place, weight);
    }
  });
}

}  // namespace

void register_resize_reference(OpTable& table) {
  table.reference("resize", [](auto& run) {
    using T = typename std::remove_reference_t<decltype(run)>::Real;
    for_each_source(run.call, run.shape(0), run.out().shape, [&](size_t from, size_t to, double weight) {
      run.out().reals[to] += run.reals(0)[from] * static_cast<T>(weight);
    });
  });
  table.reference("resize_backward", [](auto& run) {
    using T = typename std::remove_reference_t<decltype(run)>::Real;
    for_each_source(run.call, run.out().shape, run.shape(0), [&](size_t to, size_t from, double weight) {
      run.out().reals[to] += run.reals(0)[from] * static_cast<T>(weight);
    });
  });
}

}  // namespace plimsoll::program
