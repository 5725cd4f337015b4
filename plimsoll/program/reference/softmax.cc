#include <cmath>

#include "plimsoll/program/evaluate.h"
#include "plimsoll/program/reference/exp_sum.h"
#include "plimsoll/program/reference/index.h"

namespace plimsoll::program {
namespace {

// For each line along the axis the places of its elements.
template <class T>
std::vector<std::vector<size_t>> lines(const Run<T>& run) {
  return groups(run.shape(0), AxisSet().set(static_cast<size_t>(run.call.axis("axis"))));
}

// y = of(x - largest, sum of exponentials of that) along each line
template <class T, class F>
void forward(Run<T>& run, F of) {
  const auto& x = run.reals(0);
  for (const auto& line : lines(run)) {
    const ExpSum<T> all = exp_sum(x, line);
    for (const size_t at : line) run.out().reals[at] = of(x[at] - all.largest, all.sum);
  }
}

template <class T>
void softmax_backward(Run<T>& run) {
  const auto& dy = run.reals(0);
  const auto& y = run.reals(1);
  for (const auto& line : lines(run)) {
    T sum = 0;
    for (const size_t at : line) sum += dy[at] * y[at];
    for (const size_t at : line) run.out().reals[at] = y[at] * (dy[at] - sum);
  }
}

template <class T>
void log_softmax_backward(Run<T>& run) {
  const auto& dy = run.reals(0);
  const auto& y = run.reals(1);
  for (const auto& line : lines(run)) {
    T sum = 0;
    for (const size_t at : line) sum += dy[at];
    for (const size_t at : line) run.out().reals[at] = dy[at] - std::exp(y[at]) * sum;
  }
}

}  // namespace

void register_softmax_reference(OpTable& table) {
  table.reference("softmax", [](auto& run) { forward(run, [](auto x, auto sum) { return std::exp(x) / sum; }); });
  table.reference("log_softmax", [](auto& run) { forward(run, [](auto x, auto sum) { return x - std::log(sum); }); });
  table.reference("softmax_backward", [](auto& run) { softmax_backward(run); });
  table.reference("log_softmax_backward", [](auto& run) { log_softmax_backward(run); });
}

}  // namespace plimsoll::program
