#include "plimsoll/kernels/cpu/support/unfolded_conv.h"

#include <algorithm>
#include <cstring>

#include "plimsoll/base/bytes.h"
#include "plimsoll/kernels/cpu/support/epilogue.h"
#include "plimsoll/kernels/cpu/support/parallel.h"

namespace plimsoll::kernels {
namespace {

using dnnl::memory;

constexpr int64_t kUsualScratch = 1 << 20;  // of the samples that are unfolded together, if that is more than one

// Of planes, rows and columns: the dimensions from `first` on; where there are fewer than three, `missing` stands for
// the rest.
struct Extent {
  int64_t planes, rows, columns;

  Extent(const memory::dims& dims, size_t first, int64_t missing)
      : planes(dims.size() > first + 2 ? dims[first] : missing),
        rows(dims.size() > first + 1 ? dims[dims.size() - 2] : missing),
        columns(dims.back()) {}
  int64_t count() const { return planes * rows * columns; }
};

// x with each of its windows as a row: [samples * positions, channels * taps].
struct Unfolding {
  Extent in, out, kernel, stride, dilation, begin;
  int64_t channels;
  bool blocked;

  Unfolding(const Conv& c, const TensorDesc& x)
      : in(c.x, 2, 1),
        out(c.y, 2, 1),
        kernel(c.w, 2, 1),
        stride(c.stride, 0, 1),
        dilation(c.dilation, 0, 0),
        begin(c.begin, 0, 0),
        channels(c.x[1]),
        blocked(x.blocked) {}

  int64_t positions() const { return out.count(); }
  int64_t columns() const { return channels * kernel.count(); }

  // Where a channel of a sample starts, and how far apart its elements are.
  int64_t start(int64_t sample, int64_t channel) const {
    const int64_t lane = blocked ? channel % kChannelBlock : 0;
    return (sample * channels + channel - lane) * in.count() + lane;
  }
  int64_t step() const { return blocked ? kChannelBlock : 1; }

  // One row of taps of a channel. `w` is the first one's column in x, which may be in the padding.
  void unfold_taps(const float* row, int64_t w, float* to) const {
    for (int64_t tap = 0; tap < kernel.columns; ++tap, w += dilation.columns + 1) {
      to[tap] = w >= 0 && w < in.columns ? row[w * step()] : 0.0F;
    }
  }

  void unfold(const float* x, int64_t row, float* to) const {
    const int64_t position = row % positions();
    const int64_t w = position % out.columns * stride.columns - begin.columns;
    const int64_t h = position / out.columns % out.rows * stride.rows - begin.rows;
    const int64_t d = position / out.columns / out.rows * stride.planes - begin.planes;
    for (int64_t channel = 0; channel < channels; ++channel) {
      const float* plane = x + start(row / positions(), channel);
      for (int64_t tap = 0; tap < kernel.planes * kernel.rows; ++tap, to += kernel.columns) {
        const int64_t in_d = d + tap / kernel.rows * (dilation.planes + 1);
        const int64_t in_h = h + tap % kernel.rows * (dilation.rows + 1);
        if (in_d < 0 || in_d >= in.planes || in_h < 0 || in_h >= in.rows) {
          std::memset(to, 0, static_cast<size_t>(kernel.columns) * sizeof(float));
        } else {
          unfold_taps(plane + (in_d * in.rows + in_h) * in.columns * step(), w, to);
        }
      }
    }
  }
};

// Samples that are unfolded together: all in parts of one size.
int64_t part_of_batch(int64_t batch, int64_t sample_bytes) {
  int64_t part = std::clamp<int64_t>(kUsualScratch / std::max<int64_t>(sample_bytes, 1), 1, batch);
  while (batch % part != 0) --part;
  return part;
}

// dy of some samples, [samples, channels, ..], as [samples * positions, channels].
Kernel rows_of_channels(const TensorDesc& dy, int64_t samples) {
  memory::dims dims = dims_of(dy.shape);
  dims[0] = samples;
  TensorDesc part = dy;
  part.shape = Shape(std::span(dims));
  using Tag = memory::format_tag;
  constexpr Tag kChannelsLast[] = {Tag::nwc, Tag::nhwc, Tag::ndhwc};
  return reorder_kernel(desc_of(part), {dims, memory::data_type::f32, kChannelsLast[dims.size() - 3]});
}

// dw += dy' x, for `rows` of both.
Kernel product_onto(int64_t rows, int64_t outs, int64_t columns) {
  const memory::desc dy({outs, rows}, memory::data_type::f32, memory::dims{1, outs});
  const memory::desc x = plain_desc({rows, columns}, DType::f32);
  const memory::desc dw = plain_desc({outs, columns}, DType::f32);
  const Epilogue onto{.onto = true};
  DnnlKernel kernel(matmul_desc(dy, x, dw, onto.attributes()));
  kernel.input(DNNL_ARG_SRC, 0, dy, dy);
  kernel.input(DNNL_ARG_WEIGHTS, 1, x, x);
  kernel.output(DNNL_ARG_DST, 0, dw, dw);
  return std::move(kernel).finish();
}

}  // namespace

bool suits_unfolding(const Conv& conv, const dnnl::primitive_desc_base& primitive) {
  const bool one_group = conv.w.size() == conv.x.size();
  const bool unfolds = std::string_view(primitive.impl_info_str()).find(":gemm") != std::string_view::npos;
  return one_group && unfolds && dnnl_prefers_blocks();
}

Kernel unfolded_backward_weights(const Conv& conv, const KernelCall& call) {
  const Unfolding unfolding(conv, call.in(1));
  const int64_t columns = unfolding.columns();
  const int64_t outs = conv.y[1];
  const int64_t batch = conv.x[0];
  const int64_t samples = part_of_batch(batch, unfolding.positions() * (columns + outs) * 4);
  const int64_t rows = samples * unfolding.positions();
  const Kernel turn = rows_of_channels(call.in(0), samples);
  const Kernel multiply = product_onto(rows, outs, columns);
  const int64_t x_at = align_up(rows * outs * 4, kAlignment);
  const int64_t scratch_at = x_at + align_up(rows * columns * 4, kAlignment);
  return {scratch_at + std::max(turn.scratch_bytes, multiply.scratch_bytes),
          [=, threads = call.threads](const Memory& m) -> Task {
            std::vector<Task> turns;
            for (int64_t n = 0; n < batch; n += samples) {
              std::byte* dy = m.inputs[0] + n * outs * unfolding.positions() * 4;
              turns.push_back(turn.bind({{dy}, {m.scratch}, m.scratch + scratch_at}));
            }
            const Memory of_product{{m.scratch, m.scratch + x_at}, {m.outputs[0]}, m.scratch + scratch_at};
            return [=, product = multiply.bind(of_product), x = m.in<float>(1), dw = m.out<float>(),
                    unfolded = m.scratch_at<float>(x_at)] {
              std::memset(dw, 0, static_cast<size_t>(outs * columns) * sizeof(float));
              for (size_t part = 0; part < turns.size(); ++part) {
                const int64_t first = static_cast<int64_t>(part) * rows;
                turns[part]();
                parallel(threads, rows, std::max<int64_t>(kGrain / columns, 1), [&](int, int64_t row, int64_t end) {
                  for (; row < end; ++row) unfolding.unfold(x, first + row, unfolded + row * columns);
                });
                product();
              }
            };
          }};
}

}  // namespace plimsoll::kernels
