#include "plimsoll/program/evaluate.h"
#include "plimsoll/program/reference/window.h"

namespace plimsoll::program {
namespace {

// A convolution is y[n,o,p] = sum of x[n,i,q] * w[o,j,k] over the input channels i of o's group, each the j-th of it,
// and over the elements k of window p, each at q of x. All of the family are this sum, solved for y, x or w. Calls
// visit(place in y, place in x, place in w) for each product.
template <class F>
void for_each_product(const Call& call, const Shape& x, const Shape& w, const Shape& y, F visit) {
  const std::vector<Tap> taps = taps_of(window_of(call, Dims(spatial(w))), spatial(x), spatial(y));
  const int64_t x_plane = spatial(x).elements();
  const int64_t y_plane = spatial(y).elements();
  const int64_t w_plane = spatial(w).elements();
  const int64_t outputs_of_group = w[0] / call.integer("groups");
  for (int64_t n = 0; n < x[0]; ++n) {
    for (int64_t o = 0; o < w[0]; ++o) {
      for (int64_t j = 0; j < w[1]; ++j) {
        const int64_t i = o / outputs_of_group * w[1] + j;
        for (const Tap& tap : taps) {
          visit(static_cast<size_t>((n * y[1] + o) * y_plane) + tap.window,
                static_cast<size_t>((n * x[1] + i) * x_plane) + tap.x,
                static_cast<size_t>((o * w[1] + j) * w_plane) + tap.inside);
        }
      }
    }
  }
}

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
    for_each_product(run.call, run.shape(0), run.shape(1), y.shape, [&](size_t out, size_t in, size_t weight) {
      y.reals[out] += run.reals(0)[in] * run.reals(1)[weight];
    });
  });
  const auto transposed = [](auto& run) {
    start_with_bias(run);
    auto& dx = run.out();
    for_each_product(run.call, dx.shape, run.shape(1), run.shape(0), [&](size_t out, size_t in, size_t weight) {
      dx.reals[in] += run.reals(0)[out] * run.reals(1)[weight];
    });
  };
  table.reference("conv_transpose", transposed);
  table.reference("conv_backward_data", transposed);
  table.reference("conv_backward_weights", [](auto& run) {
    auto& dw = run.out();
    for_each_product(run.call, run.shape(1), dw.shape, run.shape(0), [&](size_t out, size_t in, size_t weight) {
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
