#include "plimsoll/program/reference/conv.h"

#include "plimsoll/program/evaluate.h"

namespace plimsoll::program {
namespace {

template <class T>
void start_with_bias(Run<T>& run) {
  if (run.arity() < 3) return;
  for_each_index(run.out().shape, [&](const Index& index, size_t place) {
    run.out().reals[place] = run.reals(2)[static_cast<size_t>(index[1])];
  });
}

}  // namespace

void register_conv_reference(OpTable& table) {
  table.reference("conv", [](auto& run) {
    start_with_bias(run);
    auto& y = run.out();
    for_each_conv_product(run.call, run.shape(0), run.shape(1), y.shape, [&](size_t out, size_t in, size_t weight) {
      y.reals[out] += run.reals(0)[in] * run.reals(1)[weight];
    });
  });
  const auto transposed = [](auto& run) {
    start_with_bias(run);
    auto& dx = run.out();
    for_each_conv_product(run.call, dx.shape, run.shape(1), run.shape(0), [&](size_t out, size_t in, size_t weight) {
      dx.reals[in] += run.reals(0)[out] * run.reals(1)[weight];
    });
  };
  table.reference("conv_transpose", transposed);
  table.reference("conv_backward_data", transposed);
  table.reference("conv_backward_weights", [](auto& run) {
    auto& dw = run.out();
    for_each_conv_product(run.call, run.shape(1), dw.shape, run.shape(0), [&](size_t out, size_t in, size_t weight) {
      dw.reals[weight] += run.reals(0)[out] * run.reals(1)[in];
    });
  });
  table.reference("channel_sum", [](auto& run) {
    for_each_index(run.shape(0), [&](const Index& index, size_t place) {
      run.out().reals[static_cast<size_t>(index[1])] += run.reals(0)[place];
    });
  });
}

}  // namespace plimsoll::program
