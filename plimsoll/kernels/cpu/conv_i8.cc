// Convolutions of bytes, by oneDNN, which wants channels last for them. x is brought into that order, and the sums are
// brought out of it as they are scaled, both for a part of the result at a time: some samples, or some channels of one.
// The sums of a part stay in the cache, and a convolution needs little scratch, however large its result.
#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "plimsoll/base/bytes.h"
#include "plimsoll/kernels/cpu/support/byte_products.h"
#include "plimsoll/kernels/cpu/support/conv_shapes.h"
#include "plimsoll/kernels/cpu/support/vectorised.h"
#include "plimsoll/program/quantization.h"

namespace plimsoll::kernels {
namespace {

using dnnl::memory;

constexpr int64_t kSums = 1 << 18;  // in a part

// The largest divisor of `of` that is at most `most` and a multiple of `unit`; `unit` where there is none.
int64_t divisor(int64_t of, int64_t most, int64_t unit) {
  for (int64_t found = std::min(of, most) / unit * unit; found > unit; found -= unit) {
    if (of % found == 0) return found;
  }
  return unit;
}

// How a result of [batch, channels, positions ..] is cut.
struct Parts {
  int64_t batch, channels, positions;
  int64_t samples_in, channels_in;  // a part

  explicit Parts(const KernelCall& call)
      : batch(call.out().shape[0]),
        channels(call.out().shape[1]),
        positions(call.out().elements() / (batch * channels)),
        samples_in(divisor(batch, kSums / (channels * positions), 1)),
        channels_in(channels) {
    const bool can_cut = channels % kChannelBlock == 0 && call.op.integer("groups") == 1;
    if (samples_in == 1 && can_cut) channels_in = divisor(channels, kSums / positions, kChannelBlock);
  }

  int64_t of_samples() const { return batch / samples_in; }
  int64_t of_channels() const { return channels / channels_in; }
  int64_t sums() const { return samples_in * channels_in * positions; }
};

// ---- from sums to the result ----

// kChannelBlock channels; `step` from the sums of a position to those of the next.
template <class Sum>
void scale_block(float* y, const uint32_t* sums, int64_t positions, int64_t step, const float* scales,
                 const float* bias) {
  vectorised([=] {
    for (int64_t i = 0; i < positions; ++i) {
#pragma omp simd
      for (int64_t lane = 0; lane < kChannelBlock; ++lane) {
        y[i * kChannelBlock + lane] = as_number<Sum>(sums[i * step + lane]) * scales[lane] + bias[lane];
      }
    }
  });
}

// One channel.
template <class Sum>
void scale_line(float* y, const uint32_t* sums, int64_t positions, int64_t step, float scale, float bias) {
  vectorised([=] {
#pragma omp simd
    for (int64_t i = 0; i < positions; ++i) y[i] = as_number<Sum>(sums[i * step]) * scale + bias;
  });
}

struct Scaling {
  Parts parts;
  bool blocked;
  DType sum;
  int threads;

  // Where operands and results are; sums of [samples, positions, channels].
  const float* x_scale;
  const float* w_scale;
  const float* bias;
  const uint32_t* sums;
  float* y;

  float bias_of(int64_t channel) const { return bias == nullptr ? 0.0F : bias[channel]; }

  void run(int64_t first_sample, int64_t first_channel) const {
    const int64_t lanes = blocked ? kChannelBlock : 1;
    const int64_t planes = parts.channels_in / lanes;
    const int64_t grain = kGrain / (parts.positions * lanes) + 1;
    for (int64_t n = 0; n < parts.samples_in; ++n) {
      parallel(threads, planes, grain, [&](int, int64_t begin, int64_t end) {
        const int64_t sample = first_sample + n;
        const uint32_t* of_sample = sums + n * parts.positions * parts.channels_in;
        const int64_t channel = first_channel + begin * lanes;
        float* to = y + (sample * parts.channels + channel) * parts.positions;
        for_sums(sum, [&](auto zero) {
          using Sum = decltype(zero);
          if (blocked) {
            blocks<Sum>(to, of_sample + begin * lanes, channel, (end - begin) * lanes, x_scale[sample]);
          } else {
            lines<Sum>(to, of_sample + begin, channel, end - begin, x_scale[sample]);
          }
        });
      });
    }
  }

  template <class Sum>
  void blocks(float* to, const uint32_t* from, int64_t channel, int64_t count, float of_x) const {
    for (int64_t first = 0; first < count; first += kChannelBlock) {
      std::array<float, kChannelBlock> scales;
      std::array<float, kChannelBlock> biases;
      for (int64_t lane = 0; lane < kChannelBlock; ++lane) {
        scales[static_cast<size_t>(lane)] = of_x * w_scale[channel + first + lane];
        biases[static_cast<size_t>(lane)] = bias_of(channel + first + lane);
      }
      scale_block<Sum>(to + first * parts.positions, from + first, parts.positions, parts.channels_in, scales.data(),
                       biases.data());
    }
  }

  // Some positions of all channels, then the next, so that lines of the cache that channels share are read once.
  template <class Sum>
  void lines(float* to, const uint32_t* from, int64_t channel, int64_t count, float of_x) const {
    constexpr int64_t kTile = 64;
    for (int64_t at = 0; at < parts.positions; at += kTile) {
      const int64_t length = std::min(kTile, parts.positions - at);
      for (int64_t c = 0; c < count; ++c) {
        scale_line<Sum>(to + c * parts.positions + at, from + at * parts.channels_in + c, length, parts.channels_in,
                        of_x * w_scale[channel + c], bias_of(channel + c));
      }
    }
  }
};

// ---- the kernel ----

TensorDesc channels_last(DType dtype, const memory::dims& dims) {
  return {dtype, Shape(std::span(dims)), {}, true, true};
}

TensorDesc with_batch(TensorDesc tensor, int64_t batch) {
  std::vector<int64_t> dims(tensor.shape.dims().begin(), tensor.shape.dims().end());
  dims[0] = batch;
  tensor.shape = Shape(dims);
  return tensor;
}

// The shapes of a part.
Conv part_of(const KernelCall& call, const Parts& parts) {
  Conv conv = Conv(call, call.in(0).shape, call.in(1).shape, call.out().shape).with_batch(parts.samples_in);
  conv.y[1] = parts.channels_in;
  if (parts.of_channels() > 1) conv.w[0] = parts.channels_in;
  return conv;
}

ConvForwardDesc primitive_of(const Conv& c, const ProductTypes& types) {
  const ConvOperands operands{desc_of(channels_last(types.x, c.x)), any_desc(c.w, types.w),
                              desc_of(channels_last(types.sum, c.y))};
  return conv_forward_desc(dnnl::prop_kind::forward_inference, dnnl::algorithm::convolution_direct, operands, c,
                           dnnl_attributes());
}

// Kernels for one part, and where they put what they make, in scratch. Weights are packed once for all samples.
struct ByteConv {
  Parts parts;
  DType sum;
  TensorDesc x, y;  // as given
  int64_t w_bytes, packed_bytes, x_bytes;
  int threads;
  Kernel pack, arrange, multiply;

  explicit ByteConv(const KernelCall& call)
      : parts(call),
        sum(product_types(call.in(0).dtype).sum),
        x(call.in(0)),
        y(call.out()),
        w_bytes(call.in(1).bytes() / parts.of_channels()),
        threads(call.threads) {
    const Conv c = part_of(call, parts);
    const auto primitive = primitive_of(c, product_types(x.dtype));
    const auto packed = primitive.weights_desc();
    const auto arranged = primitive.src_desc();
    packed_bytes = align_up(static_cast<int64_t>(packed.get_size()), kAlignment);
    x_bytes = align_up(static_cast<int64_t>(arranged.get_size()), kAlignment);
    pack = reorder_kernel(plain_desc(c.w, DType::i8), packed);
    arrange = reorder_kernel(desc_of(with_batch(x, parts.samples_in)), arranged);
    DnnlKernel product(primitive);
    product.input(DNNL_ARG_SRC, 0, arranged, arranged);
    product.input(DNNL_ARG_WEIGHTS, 1, packed, packed);
    product.output(DNNL_ARG_DST, 0, primitive.dst_desc(), primitive.dst_desc());
    multiply = std::move(product).finish();
  }

  int64_t x_offset() const { return packed_bytes * parts.of_channels(); }
  int64_t sums_offset() const { return x_offset() + x_bytes; }
  int64_t pads_offset() const { return sums_offset() + align_up(parts.sums() * 4, kAlignment); }
  int64_t scratch_bytes() const {
    return pads_offset() + std::max({pack.scratch_bytes, arrange.scratch_bytes, multiply.scratch_bytes});
  }

  Task bind(const Memory& m) const {
    std::vector<Task> tasks;
    std::byte* const pads = m.scratch + pads_offset();
    std::byte* const arranged = m.scratch + x_offset();
    std::byte* const sums = m.scratch + sums_offset();
    for (int64_t i = 0; i < parts.of_channels(); ++i) {
      tasks.push_back(pack.bind({{m.inputs[1] + i * w_bytes}, {m.scratch + i * packed_bytes}, pads}));
    }
    const Scaling scaling{parts,
                          y.blocked,
                          sum,
                          threads,
                          m.in<float>(2),
                          m.in<float>(3),
                          m.in<float>(4),
                          reinterpret_cast<const uint32_t*>(sums),
                          m.out<float>()};
    for (int64_t part = 0; part < parts.of_samples(); ++part) {
      std::byte* const from = m.inputs[0] + part * (x.bytes() / parts.of_samples());
      tasks.push_back(arrange.bind({{from}, {arranged}, pads}));
      for (int64_t i = 0; i < parts.of_channels(); ++i) {
        tasks.push_back(multiply.bind({{arranged, m.scratch + i * packed_bytes}, {sums}, pads}));
        tasks.push_back(
            [=, this_part = part * parts.samples_in, first = i * parts.channels_in] { scaling.run(this_part, first); });
      }
    }
    return [tasks = std::move(tasks)] {
      for (const Task& task : tasks) task();
    };
  }
};

Kernel conv_i8(const KernelCall& call) {
  if (call.in(1).elements() > program::kMostProducts * call.in(1).shape[0]) {
    call.unsupported(fmt::format("the CPU sums at most {} products of bytes in a convolution", program::kMostProducts));
  }
  const ByteConv conv(call);
  return {conv.scratch_bytes(), [conv](const Memory& m) { return conv.bind(m); }};
}

}  // namespace

void register_conv_i8_cpu(KernelTable& table) {
  const Blocking of_images{.rule = Blocking::Rule::each, .inputs = {0}, .outputs = {0}, .gains = true};
  table.add("conv_i8", {conv_i8, contiguous_only, of_images});
}

}  // namespace plimsoll::kernels
