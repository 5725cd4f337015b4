// Where the elements of windows lie, for the reference evaluations of convolutions and pools.
#pragma once

#include <vector>

#include "plimsoll/program/reference/index.h"
#include "plimsoll/program/window.h"

namespace plimsoll::program {

// The dimensions after batch and channels.
inline Shape spatial(const Shape& shape) { return Shape(shape.dims().subspan(2)); }

// One element of one window: places among the windows, in the window, and in x, of one plane each.
struct Tap {
  size_t window;
  size_t inside;
  size_t x;
};

// All taps that are not in the padding, window by window. `x` and `windows` are spatial shapes.
inline std::vector<Tap> taps_of(const Window& window, const Shape& x, const Shape& windows) {
  std::vector<Tap> taps;
  const Shape kernel = window.kernel.shape();
  for_each_index(windows, [&](const Index& at, size_t place) {
    for_each_index(kernel, [&](const Index& k, size_t inside) {
      Index from{};
      bool is_in_x = true;
      for (int axis = 0; axis < window.rank(); ++axis) {
        const auto a = static_cast<size_t>(axis);
        from[a] = at[a] * window.stride[axis].constant() + k[a] * window.dilation[axis].constant() -
                  window.begin[axis].constant();
        is_in_x = is_in_x && from[a] >= 0 && from[a] < x[axis];
      }
      if (is_in_x) taps.push_back({place, inside, place_of(x, from)});
    });
  });
  return taps;
}

}  // namespace plimsoll::program
