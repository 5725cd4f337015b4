#include "plimsoll/kernels/cpu/support/narrow_conv.h"

#include <algorithm>
#include <cstring>

#include "plimsoll/base/bytes.h"
#include "plimsoll/kernels/cpu/simd/simd.h"
#include "plimsoll/kernels/cpu/support/parallel.h"
#include "plimsoll/program/window.h"

namespace plimsoll::kernels {
namespace {

constexpr int64_t kMostChannels = 4;
constexpr int64_t kMostKernel = 5;
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

simd::NarrowRow row_of(const NarrowConv& c, const Image& image) {
  return {c.in, c.out, c.kernel_h, c.kernel_w, c.columns, image.row, image.plane, c.rows * c.columns};
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

constexpr int64_t kRowGroup = 4;  // rows whose products are added in f32

void backward_rows(const NarrowConv& c, const Image& image, int64_t first, int64_t end, const float* dy, double* dw) {
  const simd::NarrowRow row = row_of(c, image);
  for (int64_t y = first; y < end; y += kRowGroup) {
    simd::functions().narrow_backward(row, image.data + y * image.row, dy + y * c.columns, std::min(kRowGroup, end - y),
                                      dw);
  }
}

}  // namespace

std::optional<NarrowConv> narrow_conv(const program::OpCall& op_call, const Shape& x, const Shape& w, const Shape& y) {
  if (x.rank() != 4 || op_call.integer("groups") != 1 || y.elements() == 0) return std::nullopt;
  const program::Window window = program::window_of(op_call, program::Dims(Shape(w.dims().subspan(2))));
  for (int axis = 0; axis < 2; ++axis) {
    if (window.stride[axis] != 1 || window.dilation[axis] != 1) return std::nullopt;
  }
  const NarrowConv c{x[0], x[1], w[0], x[2], x[3], window.begin[0].constant(), window.begin[1].constant(),
                     y[2], y[3], w[2], w[3]};
  const bool suits = c.in <= kMostChannels && c.out % simd::NarrowRow::kOuts == 0 &&
                     c.columns >= simd::NarrowRow::kFewestColumns && c.kernel_h <= kMostKernel &&
                     c.kernel_w <= kMostKernel;
  return suits ? std::optional(c) : std::nullopt;
}

Kernel narrow_forward(const NarrowConv& c, const KernelCall& call) {
  return {scratch_of(c, call.threads), [c, threads = call.threads](const Memory& m) -> Task {
            return [=, x = m.in<float>(0), w = m.in<float>(1), bias = m.in<float>(2), y = m.out<float>(),
                    scratch = m.scratch] {
              for_rows(c, threads, x, scratch, [&](int, int64_t n, const Image& image, int64_t first, int64_t end) {
                float* out = y + n * c.out * c.rows * c.columns;
                const simd::NarrowRow row = row_of(c, image);
                for (int64_t at = first; at < end; ++at) {
                  simd::functions().narrow_forward(row, image.data + at * image.row, w, bias, out + at * c.columns);
                }
              });
            };
          }};
}

Kernel narrow_backward_weights(const NarrowConv& c, const KernelCall& call) {
  const int64_t images = scratch_of(c, call.threads);
  const int64_t count = c.out * c.taps();  // of dw; each thread has sums of its own
  const int64_t sums = call.threads * count;
  return {images + sums * static_cast<int64_t>(sizeof(double)), [=, threads = call.threads](const Memory& m) -> Task {
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
