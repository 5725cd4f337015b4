#include "plimsoll/program/ops/factored.h"

#include <algorithm>
#include <cmath>
#include <functional>

#include "plimsoll/program/evaluate.h"

namespace plimsoll::program {
namespace {

template <class T>
struct Scalars {
  T step, rate, scale, decay;
};

// Operands from `step` on: the counter, the rate and perhaps the scale.
template <class T>
Scalars<T> scalars_of(const Run<T>& run, int step) {
  return {static_cast<T>(run.ints(step)[0]), run.reals(step + 1)[0],
          step + 2 < run.arity() ? run.reals(step + 2)[0] : T{1}, static_cast<T>(run.call.real("weight_decay"))};
}

template <class T>
T root_mean_square(const std::vector<T>& x) {
  T sum = 0;
  for (const T one : x) sum += one * one;
  return std::sqrt(sum / static_cast<T>(x.size()));
}

// By the estimate of each element's mean square.
template <class T>
void go(Run<T>& run, const Scalars<T>& s, const std::function<T(size_t)>& square) {
  const std::vector<T>& w = run.reals(0);
  std::vector<T> update(w.size());
  for (size_t i = 0; i < w.size(); ++i) {
    const T least = static_cast<T>(kLeastSquare * kLeastSquare);
    update[i] = s.scale * run.reals(1)[i] / std::sqrt(std::max(square(i), least));
  }
  const T size =
      std::max(static_cast<T>(kLeastParameter), root_mean_square(w)) * std::min(s.rate, 1 / std::sqrt(s.step));
  const T clipped = size / std::max(T{1}, root_mean_square(update));
  for (size_t i = 0; i < w.size(); ++i) run.out().reals[i] = w[i] * (1 - s.rate * s.decay) - clipped * update[i];
}

template <class T>
bool skips(Run<T>& run, T scale, int results) {
  if (!std::isnan(scale)) return false;
  for (int k = 0; k < results; ++k) run.out(k).reals = run.reals(k == 0 ? 0 : k + 1);
  return true;
}

template <class T>
void matrix(Run<T>& run) {
  const Scalars<T> s = scalars_of(run, 4);
  if (skips(run, s.scale, 3)) return;
  const size_t rows = run.reals(2).size();
  const size_t columns = run.reals(3).size();
  std::vector<T> of_rows(rows, 0);
  std::vector<T> of_columns(columns, 0);
  for (size_t i = 0; i < rows * columns; ++i) {
    const T gradient = s.scale * run.reals(1)[i];
    of_rows[i / columns] += gradient * gradient / static_cast<T>(columns);
    of_columns[i % columns] += gradient * gradient / static_cast<T>(rows);
  }
  const T share = std::pow(s.step, static_cast<T>(kFactoredDecay));
  const auto take_in = [&](int operand, const std::vector<T>& now, std::vector<T>& out) {
    for (size_t i = 0; i < now.size(); ++i) out[i] = (1 - share) * run.reals(operand)[i] + share * now[i];
  };
  take_in(2, of_rows, run.out(1).reals);
  take_in(3, of_columns, run.out(2).reals);
  T mean = 0;
  for (const T row : run.out(1).reals) mean += row / static_cast<T>(rows);
  mean = std::max(mean, static_cast<T>(kLeastSquare));
  go<T>(run, s, [&](size_t i) { return run.out(1).reals[i / columns] * run.out(2).reals[i % columns] / mean; });
}

template <class T>
void vector(Run<T>& run) {
  const Scalars<T> s = scalars_of(run, 3);
  if (skips(run, s.scale, 2)) return;
  const T share = std::pow(s.step, static_cast<T>(kFactoredDecay));
  for (size_t i = 0; i < run.reals(0).size(); ++i) {
    const T gradient = s.scale * run.reals(1)[i];
    run.out(1).reals[i] = (1 - share) * run.reals(2)[i] + share * gradient * gradient;
  }
  go<T>(run, s, [&](size_t i) { return run.out(1).reals[i]; });
}

}  // namespace

void register_factored_reference(OpTable& table) {
  table.reference("adafactor", [](auto& run) { matrix(run); });
  table.reference("adafactor_vector", [](auto& run) { vector(run); });
}

}  // namespace plimsoll::program
