#include <cmath>

#include "plimsoll/program/evaluate.h"
#include "plimsoll/program/reference/lines.h"

namespace plimsoll::program {
namespace {

// y = of(x - largest, sum of exponentials of that) along each line
template <class T, class F>
void forward(Run<T>& run, F of) {
  const auto& x = run.reals(0);
  for_each_line(run.shape(0), run.call.axis("axis"), [&](const Line& line, size_t /*place*/) {
    const ExpSum<T> all = exp_sum(x, line);
    for (size_t i = 0; i < line.length; ++i) run.out().reals[line.at(i)] = of(x[line.at(i)] - all.largest, all.sum);
  });
}

template <class T>
void softmax_backward(Run<T>& run) {
  const auto& dy = run.reals(0);
  const auto& y = run.reals(1);
  for_each_line(run.shape(0), run.call.axis("axis"), [&](const Line& line, size_t /*place*/) {
    T sum = 0;
    for (size_t i = 0; i < line.length; ++i) sum += dy[line.at(i)] * y[line.at(i)];
    for (size_t i = 0; i < line.length; ++i) run.out().reals[line.at(i)] = y[line.at(i)] * (dy[line.at(i)] - sum);
  });
}

template <class T>
void log_softmax_backward(Run<T>& run) {
  const auto& dy = run.reals(0);
  const auto& y = run.reals(1);
  for_each_line(run.shape(0), run.call.axis("axis"), [&](const Line& line, size_t /*place*/) {
    T sum = 0;
    for (size_t i = 0; i < line.length; ++i) sum += dy[line.at(i)];
    for (size_t i = 0; i < line.length; ++i) {
      run.out().reals[line.at(i)] = dy[line.at(i)] - std::exp(y[line.at(i)]) * sum;
    }
  });
}

}  // namespace

void register_softmax_reference(OpTable& table) {
  table.reference("softmax", [](auto& run) { forward(run, [](auto x, auto sum) { return std::exp(x) / sum; }); });
  table.reference("log_softmax", [](auto& run) { forward(run, [](auto x, auto sum) { return x - std::log(sum); }); });
  table.reference("softmax_backward", [](auto& run) { softmax_backward(run); });
  table.reference("log_softmax_backward", [](auto& run) { log_softmax_backward(run); });
}

}  // namespace plimsoll::program
