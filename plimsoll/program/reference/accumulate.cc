#include "plimsoll/program/evaluate.h"

namespace plimsoll::program {
namespace {

template <class T>
void add(Run<T>& run) {
  for (size_t i = 0; i < run.reals(0).size(); ++i) run.out().reals[i] = run.reals(0)[i] + run.reals(1)[i];
}

// sum + dy' x, over the rows of dy and x.
template <class T>
void add_product(Run<T>& run) {
  const auto outs = static_cast<size_t>(run.shape(0)[0]);
  const auto ins = static_cast<size_t>(run.shape(0)[1]);
  run.out().reals = run.reals(0);
  for (size_t row = 0; outs > 0 && row < run.reals(1).size() / outs; ++row) {
    for (size_t i = 0; i < outs; ++i) {
      for (size_t j = 0; j < ins; ++j) {
        run.out().reals[i * ins + j] += run.reals(1)[row * outs + i] * run.reals(2)[row * ins + j];
      }
    }
  }
}

}  // namespace

void register_accumulate_reference(OpTable& table) {
  table.reference("accumulate", [](auto& run) { add(run); });
  table.reference("linear_accumulate", [](auto& run) { add_product(run); });
  table.reference("clear", [](auto& /*run*/) {});
}

}  // namespace plimsoll::program
