#include "plimsoll/kernels/cpu/support/narrow_conv.h"

#include <algorithm>
#include <cstring>

#include "plimsoll/base/bytes.h"
#include "plimsoll/kernels/cpu/support/parallel.h"
#include "plimsoll/program/window.h"

namespace plimsoll::kernels {
namespace {

constexpr int64_t kMostChannels = 4;
constexpr int64_t kMostKernel = 5;
constexpr int kLanes = 16;  // floats that are computed together
constexpr int kWide = 4;    // times that in one row of a tile of results
constexpr int kTile = kLanes * kWide;

typedef float Lanes __attribute__((vector_size(kLanes * sizeof(float))));  // NOLINT: g++ takes it in this form alone

// From and to any address: images have any width. By reference: wide vectors are not passed alike on all machines.
[[gnu::always_inline]] inline void load(Lanes& lanes, const float* from) { std::memcpy(&lanes, from, sizeof(lanes)); }
[[gnu::always_inline]] inline void store(float* to, const Lanes& lanes) { std::memcpy(to, &lanes, sizeof(lanes)); }

// Images with their padding, if any: the rows that the kernel's taps lie in.
struct Padded {
  int64_t height, width;

  explicit Padded(const NarrowConv& c) : height(c.rows + c.kernel_h - 1), width(c.columns + c.kernel_w - 1) {}
  bool is_copy(const NarrowConv& c) const { return height > c.height || width > c.width; }
};

// Bytes of scratch for one padded image in each thread.
int64_t scratch_of(const NarrowConv& c, int threads) {
  const Padded padded(c);
  if (!padded.is_copy(c)) return 0;
  return threads * align_up(c.in * padded.height * padded.width * 4, kAlignment);
}

// An image as the taps find it: x itself, or its padded copy.
struct Image {
  const float* data;
  int64_t row;    // floats from row to row
  int64_t plane;  // and from channel to channel
};

Image image_of(const NarrowConv& c, const float* x, float* scratch) {
  const Padded padded(c);
  if (!padded.is_copy(c)) return {x, c.width, c.height * c.width};
  const int64_t plane = padded.height * padded.width;
  std::memset(scratch, 0, static_cast<size_t>(c.in * plane) * sizeof(float));
  const auto width = static_cast<size_t>(std::min(c.width, padded.width - c.left)) * sizeof(float);
  for (int64_t channel = 0; channel < c.in; ++channel) {
    for (int64_t y = 0; y < std::min(c.height, padded.height - c.top); ++y) {
      std::memcpy(scratch + channel * plane + (y + c.top) * padded.width + c.left,
                  x + (channel * c.height + y) * c.width, width);
    }
  }
  return {scratch, padded.width, plane};
}

// ---- forward ----

// kTile results in one row of each of `kOut` channels; `at` is the first tap's element of the image.
template <int kOut>
[[gnu::always_inline]] inline void forward_tile(const NarrowConv& c, const Image& image, const float* at,
                                                const float* w, const float* bias, float* y) {
  Lanes sums[kOut][kWide];
  for (int o = 0; o < kOut; ++o) {
    for (int i = 0; i < kWide; ++i) sums[o][i] = Lanes{} + (bias == nullptr ? 0.0F : bias[o]);
  }
  for (int64_t channel = 0, tap = 0; channel < c.in; ++channel) {
    for (int64_t ky = 0; ky < c.kernel_h; ++ky) {
      const float* row = at + channel * image.plane + ky * image.row;
      for (int64_t kx = 0; kx < c.kernel_w; ++kx, ++tap) {
        for (int i = 0; i < kWide; ++i) {
          Lanes x;
          load(x, row + kx + i * kLanes);
          for (int o = 0; o < kOut; ++o) sums[o][i] += w[o * c.taps() + tap] * x;
        }
      }
    }
  }
  for (int o = 0; o < kOut; ++o) {
    for (int i = 0; i < kWide; ++i) store(y + o * c.rows * c.columns + i * kLanes, sums[o][i]);
  }
}

// A row of all channels. The last tile ends with the row, over what the one before it made.
PLIMSOLL_VECTORISED void forward_row(const NarrowConv& c, const Image& image, int64_t y, const float* w,
                                     const float* bias, float* out) {
  const auto bias_of = [&](int64_t o) { return bias == nullptr ? nullptr : bias + o; };
  for (int64_t x = 0; x < c.columns; x += kTile) {
    const int64_t first = std::min(x, c.columns - kTile);
    const float* at = image.data + y * image.row + first;
    float* to = out + y * c.columns + first;
    int64_t o = 0;
    for (; o + 4 <= c.out; o += 4) {
      forward_tile<4>(c, image, at, w + o * c.taps(), bias_of(o), to + o * c.rows * c.columns);
    }
    for (; o < c.out; ++o) {
      forward_tile<1>(c, image, at, w + o * c.taps(), bias_of(o), to + o * c.rows * c.columns);
    }
  }
}

// Calls f(part, image, first row, end) for the rows of all images, cut into parts for the threads.
template <class F>
void for_rows(const NarrowConv& c, int threads, const float* x, std::byte* scratch, const F& f) {
  const int64_t each = scratch_of(c, 1) / static_cast<int64_t>(sizeof(float));
  parallel(threads, c.batch * c.rows, 1, [&](int part, int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end;) {
      const int64_t n = row / c.rows;
      const int64_t stop = std::min(end, (n + 1) * c.rows);
      const Image image =
          image_of(c, x + n * c.in * c.height * c.width, reinterpret_cast<float*>(scratch) + part * each);
      f(part, n, image, row - n * c.rows, stop - n * c.rows);
      row = stop;
    }
  });
}

// ---- backward ----

constexpr int kOuts = 4;          // channels of dy that are multiplied together
constexpr int64_t kRowGroup = 8;  // rows whose products are added in registers

// Adds to dw[kOuts][taps] the products of rows [y, end) of dy's channels with one row of taps.
template <int kKernel>
[[gnu::always_inline]] inline void backward_taps(const NarrowConv& c, const float* x, int64_t x_row, const float* dy,
                                                 int64_t rows, double* dw) {
  Lanes sums[kOuts][kKernel] = {};
  float ends[kOuts][kKernel] = {};
  for (int64_t y = 0; y < rows; ++y) {
    const float* in = x + y * x_row;
    const float* of = dy + y * c.columns;
    int64_t i = 0;
    for (; i + kLanes <= c.columns; i += kLanes) {
      Lanes shifted[kKernel];
      for (int k = 0; k < kKernel; ++k) load(shifted[k], in + i + k);
      for (int o = 0; o < kOuts; ++o) {
        Lanes g;
        load(g, of + o * c.rows * c.columns + i);
        for (int k = 0; k < kKernel; ++k) sums[o][k] += g * shifted[k];
      }
    }
    for (; i < c.columns; ++i) {
      for (int o = 0; o < kOuts; ++o) {
        for (int k = 0; k < kKernel; ++k) ends[o][k] += of[o * c.rows * c.columns + i] * in[i + k];
      }
    }
  }
  for (int o = 0; o < kOuts; ++o) {
    for (int k = 0; k < kKernel; ++k) {
      float sum = ends[o][k];
      for (int lane = 0; lane < kLanes; ++lane) sum += sums[o][k][lane];
      dw[o * c.taps() + k] += static_cast<double>(sum);
    }
  }
}

PLIMSOLL_VECTORISED void backward_rows(const NarrowConv& c, const Image& image, int64_t first, int64_t end,
                                       const float* dy, double* dw) {
  for (int64_t y = first; y < end; y += kRowGroup) {
    const int64_t rows = std::min(kRowGroup, end - y);
    for (int64_t o = 0; o < c.out; o += kOuts) {
      const float* of = dy + (o * c.rows + y) * c.columns;
      for (int64_t channel = 0; channel < c.in; ++channel) {
        for (int64_t ky = 0; ky < c.kernel_h; ++ky) {
          const float* in = image.data + channel * image.plane + (y + ky) * image.row;
          double* to = dw + o * c.taps() + (channel * c.kernel_h + ky) * c.kernel_w;
          if (c.kernel_w == 3) {
            backward_taps<3>(c, in, image.row, of, rows, to);
          } else if (c.kernel_w == 5) {
            backward_taps<5>(c, in, image.row, of, rows, to);
          } else {
            for (int64_t k = 0; k < c.kernel_w; ++k) backward_taps<1>(c, in + k, image.row, of, rows, to + k);
          }
        }
      }
    }
  }
}

}  // namespace

std::optional<NarrowConv> narrow_conv(const program::Call& call, const Shape& x, const Shape& w, const Shape& y) {
  if (x.rank() != 4 || call.integer("groups") != 1 || y.elements() == 0) return std::nullopt;
  const program::Window window = program::window_of(call, program::Dims(Shape(w.dims().subspan(2))));
  for (int axis = 0; axis < 2; ++axis) {
    if (window.stride[axis] != 1 || window.dilation[axis] != 1) return std::nullopt;
  }
  const NarrowConv c{x[0], x[1], w[0], x[2], x[3], window.begin[0].constant(), window.begin[1].constant(),
                     y[2], y[3], w[2], w[3]};
  const bool suits = c.in <= kMostChannels && c.out % kOuts == 0 && c.columns >= kTile && c.kernel_h <= kMostKernel &&
                     c.kernel_w <= kMostKernel;
  return suits ? std::optional(c) : std::nullopt;
}

Kernel narrow_forward(const NarrowConv& c, const Use& use) {
  return {scratch_of(c, use.threads), [c, threads = use.threads](const Memory& m) -> Task {
            return [=, x = m.in<float>(0), w = m.in<float>(1), bias = m.in<float>(2), y = m.out<float>(),
                    scratch = m.scratch] {
              for_rows(c, threads, x, scratch, [&](int, int64_t n, const Image& image, int64_t first, int64_t end) {
                float* out = y + n * c.out * c.rows * c.columns;
                for (int64_t row = first; row < end; ++row) forward_row(c, image, row, w, bias, out);
              });
            };
          }};
}

Kernel narrow_backward_weights(const NarrowConv& c, const Use& use) {
  const int64_t images = scratch_of(c, use.threads);
  const int64_t count = c.out * c.taps();  // of dw; each thread has sums of its own
  const int64_t sums = use.threads * count;
  return {images + sums * static_cast<int64_t>(sizeof(double)), [=, threads = use.threads](const Memory& m) -> Task {
            return [=, dy = m.in<float>(0), x = m.in<float>(1), dw = m.out<float>(), scratch = m.scratch,
                    partial = m.scratch_at<double>(images)] {
              std::fill_n(partial, sums, 0.0);
              for_rows(
                  c, threads, x, scratch, [&](int part, int64_t n, const Image& image, int64_t first, int64_t end) {
                    backward_rows(c, image, first, end, dy + n * c.out * c.rows * c.columns, partial + part * count);
                  });
              for (int64_t i = 0; i < count; ++i) {
                double sum = 0;
                for (int64_t at = i; at < sums; at += count) sum += partial[at];
                dw[i] = static_cast<float>(sum);
              }
            };
          }};
}

}  // namespace plimsoll::kernels
