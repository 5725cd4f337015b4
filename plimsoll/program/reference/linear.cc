#include "plimsoll/program/evaluate.h"

namespace plimsoll::program {
namespace {

// Calls visit(in_x, in_w, in_y) for every row, output feature o and input feature i, with where x[row,i],
// w[o,i] and y[row,o] lie.
template <class F>
void for_each_product(int64_t y_elements, int64_t in, int64_t out, F visit) {
  for (int64_t row = 0; row < (out == 0 ? 0 : y_elements / out); ++row) {
    for (int64_t o = 0; o < out; ++o) {
      for (int64_t i = 0; i < in; ++i) {
        visit(static_cast<size_t>(row * in + i), static_cast<size_t>(o * in + i), static_cast<size_t>(row * out + o));
      }
    }
  }
}

template <class T>
void forward(Run<T>& run) {
  auto& y = run.out().reals;
  const auto out = static_cast<size_t>(run.shape(1)[0]);
  for (size_t i = 0; run.arity() > 2 && i < y.size(); ++i) y[i] = run.reals(2)[i % out];
  for_each_product(run.out().elements(), run.shape(1)[1], run.shape(1)[0],
                   [&](size_t in_x, size_t in_w, size_t in_y) { y[in_y] += run.reals(0)[in_x] * run.reals(1)[in_w]; });
}

template <class T>
void backward_input(Run<T>& run) {
  for_each_product(run.in(0).elements(), run.shape(1)[1], run.shape(1)[0], [&](size_t in_x, size_t in_w, size_t in_y) {
    run.out().reals[in_x] += run.reals(0)[in_y] * run.reals(1)[in_w];
  });
}

template <class T>
void backward_weights(Run<T>& run) {
  const Shape& dw = run.out().shape;
  for_each_product(run.in(0).elements(), dw[1], dw[0], [&](size_t in_x, size_t in_w, size_t in_y) {
    run.out().reals[in_w] += run.reals(0)[in_y] * run.reals(1)[in_x];
  });
  if (!run.wants(1)) return;
  const auto out = static_cast<size_t>(dw[0]);
  for (size_t i = 0; i < run.reals(0).size(); ++i) run.out(1).reals[i % out] += run.reals(0)[i];
}

}  // namespace

void register_linear_reference(OpTable& table) {
  table.reference("linear", [](auto& run) { forward(run); });
  table.reference("linear_backward_input", [](auto& run) { backward_input(run); });
  table.reference("linear_backward_weights", [](auto& run) { backward_weights(run); });
}

}  // namespace plimsoll::program
