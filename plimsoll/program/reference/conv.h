// The sum that all convolutions are, for their reference evaluations.
#pragma once

#include "plimsoll/program/reference/window.h"

namespace plimsoll::program {

// A convolution is y[n,o,p] = sum of x[n,i,q] * w[o,j,k] over the input channels i of o's group, each the j-th of it,
// and over the elements k of window p, each at q of x. All of the family are this sum, solved for y, x or w. Calls
// visit(place in y, place in x, place in w) for each product.
template <class F>
void for_each_conv_product(const OpCall& call, const Shape& x, const Shape& w, const Shape& y, F visit) {
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

}  // namespace plimsoll::program
