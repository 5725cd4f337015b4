#include <algorithm>
#include <numeric>

#include "plimsoll/program/evaluate.h"
#include "plimsoll/program/reference/index.h"

namespace plimsoll::program {
namespace {

using Line = std::vector<size_t>;  // places of the elements along the axis

template <class T>
std::vector<Line> lines(const Run<T>& run, const Shape& shape) {
  return groups(shape, AxisSet().set(static_cast<size_t>(run.call.axis("axis"))));
}

// Whether a comes before b; NaN counts as the largest.
template <class N>
bool larger(N a, N b) {
  return a > b || (a != a && b == b);
}

// Places along the line, the largest (or smallest) first; equals keep their order.
template <class Numbers>
std::vector<size_t> ranked(const Numbers& x, const Line& line, bool largest) {
  std::vector<size_t> order(line.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    return largest ? larger(x[line[a]], x[line[b]]) : larger(x[line[b]], x[line[a]]);
  });
  return order;
}

// The place along the line of the first element that none is better than; NaN is better than all.
template <class Numbers>
int64_t best_place(const Numbers& x, const Line& line, bool largest) {
  size_t best = 0;
  for (size_t i = 1; i < line.size(); ++i) {
    const auto a = x[line[i]];
    const auto b = x[line[best]];
    if ((largest ? a > b : a < b) || (a != a && b == b)) best = i;
  }
  return static_cast<int64_t>(best);
}

template <class T>
void arg(Run<T>& run, bool largest) {
  on_numbers(run.in(0), [&](auto of) {
    const auto all = lines(run, run.shape(0));
    for (size_t i = 0; i < all.size(); ++i) run.out().ints[i] = best_place(of(run.in(0)), all[i], largest);
  });
}

template <class T>
void cumsum(Run<T>& run) {
  on_numbers(run.in(0), [&](auto of) {
    for (Line line : lines(run, run.shape(0))) {
      if (run.call.flag("reverse")) std::reverse(line.begin(), line.end());
      std::decay_t<decltype(of(run.out())[0])> sum = 0;
      for (const size_t at : line) {
        const auto before = sum;
        sum += of(run.in(0))[at];
        of(run.out())[at] = run.call.flag("exclusive") ? before : sum;
      }
    }
  });
}

template <class T>
void top_k(Run<T>& run) {
  on_numbers(run.in(0), [&](auto of) {
    const auto from = lines(run, run.shape(0));
    const auto to = lines(run, run.out().shape);
    for (size_t i = 0; i < to.size(); ++i) {
      const auto order = ranked(of(run.in(0)), from[i], run.call.flag("largest"));
      for (size_t k = 0; k < to[i].size(); ++k) {
        of(run.out())[to[i][k]] = of(run.in(0))[from[i][order[k]]];
        run.out(1).ints[to[i][k]] = static_cast<int64_t>(order[k]);
      }
    }
  });
}

}  // namespace

void register_along_axis_reference(OpTable& table) {
  table.reference("argmax", [](auto& run) { arg(run, true); });
  table.reference("argmin", [](auto& run) { arg(run, false); });
  table.reference("cumsum", [](auto& run) { cumsum(run); });
  table.reference("top_k", [](auto& run) { top_k(run); });
}

}  // namespace plimsoll::program
