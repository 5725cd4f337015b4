// Images in bf16 as rows of channels.
#pragma once

#include "plimsoll/kernels/cpu/simd/body/vectors.h"

namespace plimsoll::kernels::simd::PLIMSOLL_SIMD {
namespace {

// Calls f(channel, place) for each vector of channels of each row.
template <class F>
[[gnu::always_inline]] inline void for_each_row(int64_t rows, int64_t width, const F& f) {
  for (int64_t row = 0; row < rows; ++row) {
    for (int64_t channel = 0; channel < width; channel += kLanes) f(channel, row * width + channel);
  }
}

// sums += f(channel, place) over the rows, a few of them at a time.
template <class F>
[[gnu::always_inline]] inline void add_rows(float* sums, int64_t rows, int64_t width, const F& f) {
  int64_t row = 0;
  for (; row + 4 <= rows; row += 4) {
    for (int64_t channel = 0; channel < width; channel += kLanes) {
      const int64_t at = row * width + channel;
      const Floats early = f(channel, at) + f(channel, at + width);
      const Floats late = f(channel, at + 2 * width) + f(channel, at + 3 * width);
      store(sums + channel, load<Floats>(sums + channel) + (early + late));
    }
  }
  for (; row < rows; ++row) {
    for (int64_t channel = 0; channel < width; channel += kLanes) {
      store(sums + channel, load<Floats>(sums + channel) + f(channel, row * width + channel));
    }
  }
}

void sum_channels(float* sums, const uint16_t* x, int64_t rows, int64_t width) {
  add_rows(sums, rows, width, [&](int64_t, int64_t at) { return load_wide<Bf16>(x + at); });
}

void sum_squares(float* sums, const uint16_t* x, const float* mean, int64_t rows, int64_t width) {
  add_rows(sums, rows, width, [&](int64_t channel, int64_t at) {
    const Floats centred = load_wide<Bf16>(x + at) - load<Floats>(mean + channel);
    return centred * centred;
  });
}

void sum_slopes(float* sums, float* products, const uint16_t* dy, const uint16_t* x, const float* mean, int64_t rows,
                int64_t width) {
  sum_channels(sums, dy, rows, width);
  add_rows(products, rows, width, [&](int64_t channel, int64_t at) {
    return load_wide<Bf16>(dy + at) * (load_wide<Bf16>(x + at) - load<Floats>(mean + channel));
  });
}

void affine(uint16_t* y, const uint16_t* x, const float* mean, const float* scale, const float* shift, int64_t rows,
            int64_t width) {
  for_each_row(rows, width, [&](int64_t channel, int64_t at) {
    const Floats centred = load_wide<Bf16>(x + at) - load<Floats>(mean + channel);
    store_wide<Bf16>(y + at, centred * load<Floats>(scale + channel) + load<Floats>(shift + channel));
  });
}

void gradient(uint16_t* dx, const uint16_t* dy, const uint16_t* x, const float* mean, const float* scale,
              const float* level, const float* slope, int64_t rows, int64_t width) {
  for_each_row(rows, width, [&](int64_t channel, int64_t at) {
    const Floats centred = load_wide<Bf16>(x + at) - load<Floats>(mean + channel);
    const Floats rest = load_wide<Bf16>(dy + at) - load<Floats>(level + channel);
    store_wide<Bf16>(dx + at, load<Floats>(scale + channel) * (rest - centred * load<Floats>(slope + channel)));
  });
}

}  // namespace
}  // namespace plimsoll::kernels::simd::PLIMSOLL_SIMD
