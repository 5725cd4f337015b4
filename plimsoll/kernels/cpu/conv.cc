// Convolutions, by oneDNN in the layouts that it likes; 3x3 ones by Winograd's algorithm, which takes 4 products where
// the direct one takes 9, for some more scratch. What is not blocked as oneDNN likes it is reordered in scratch.
#include <algorithm>
#include <optional>

#include "plimsoll/kernels/cpu/support/channel_rows.h"
#include "plimsoll/kernels/cpu/support/channels.h"
#include "plimsoll/kernels/cpu/support/conv_shapes.h"
#include "plimsoll/kernels/cpu/support/dnnl.h"
#include "plimsoll/kernels/cpu/support/epilogue.h"
#include "plimsoll/kernels/cpu/support/narrow_conv.h"
#include "plimsoll/kernels/cpu/support/narrow_weights.h"
#include "plimsoll/kernels/cpu/support/small_image_weights.h"
#include "plimsoll/kernels/cpu/support/unfolded_conv.h"
#include "plimsoll/kernels/cpu/support/vectorised.h"
#include "plimsoll/kernels/cpu/support/winograd_conv.h"
#include "plimsoll/kernels/cpu/tiles/tiles.h"
#include "plimsoll/kernels/tiling.h"

namespace plimsoll::kernels {
namespace {

using dnnl::memory;

using dnnl::algorithm;

ConvForwardDesc forward_desc(const Conv& c, algorithm how, bool biased = false,
                             const dnnl::primitive_attr& attributes = dnnl_attributes()) {
  return conv_forward_desc(dnnl::prop_kind::forward_training, how, c.any_layout(biased), c, attributes);
}

void require_one_dtype(const KernelCall& call) {
  for (int i = 0; i < call.arity() && call.in(i).dtype != DType::bf16; ++i) call.require_f32(i);
}

// ---- by Winograd's algorithm ----

// In the scratch of a kernel, by the bytes of its operands and result, when it is more than is spare: parts of the
// batch are made so small that they keep to the first; where even one sample takes more than the second, the direct
// algorithm is taken.
constexpr int64_t kUsualScratch = 1;
constexpr int64_t kMostScratch = 4;
constexpr int64_t kFewestChannels = 32;
constexpr int64_t kSmallestImage = 6;

bool has_winograd_shape(const Conv& c) {
  const auto all = [](const memory::dims& dims, int64_t value) {
    return std::all_of(dims.begin(), dims.end(), [=](int64_t dim) { return dim == value; });
  };
  const auto suits = [](int64_t channels) { return channels >= kFewestChannels && channels % kChannelBlock == 0; };
  return c.w.size() == 4 && c.w[2] == 3 && c.w[3] == 3 && all(c.stride, 1) && all(c.dilation, 0) && suits(c.x[1]) &&
         suits(c.y[1]) && c.y[2] >= kSmallestImage && c.y[3] >= kSmallestImage;
}

bool suits_winograd(const Conv& c) { return c.dtype == DType::f32 && has_winograd_shape(c); }

// A kernel whose operand 0 and result 0 are the batch, run on one part of it after the other.
Kernel in_parts(const Kernel& kernel, int64_t parts, int64_t in_bytes, int64_t out_bytes) {
  if (parts == 1) return kernel;
  return {kernel.scratch_bytes, [=](const Memory& m) -> Task {
            std::vector<Task> tasks;
            for (int64_t part = 0; part < parts; ++part) {
              Memory of_part = m;
              of_part.inputs[0] += part * (in_bytes / parts);
              of_part.outputs[0] += part * (out_bytes / parts);
              tasks.push_back(kernel.bind(of_part));
            }
            return [tasks = std::move(tasks)] {
              for (const Task& task : tasks) task();
            };
          }};
}

int64_t next_divisor(int64_t of, int64_t below) {
  int64_t divisor = below - 1;
  while (of % divisor != 0) --divisor;
  return divisor;
}

// `make` gives the kernel for an algorithm and a part of the batch.
template <class Make>
std::optional<Kernel> by_winograd(const Conv& c, const KernelCall& call, bool can_part, const Make& make) {
  if (call.least_scratch || !suits_winograd(c) || !dnnl_has_winograd()) return std::nullopt;
  const int64_t bytes = call.in(0).bytes() + call.in(1).bytes() + call.out().bytes();
  const int64_t batch = c.x[0];
  try {
    for (int64_t part = batch;; part = next_divisor(batch, part)) {
      Kernel kernel = make(algorithm::convolution_winograd, part);
      const bool last = part == 1 || !can_part;
      const int64_t limit = std::max((last ? kMostScratch : kUsualScratch) * bytes, call.spare_bytes);
      if (kernel.scratch_bytes <= limit) {
        return in_parts(kernel, batch / part, call.in(0).bytes(), call.out().bytes());
      }
      if (last) return std::nullopt;
    }
  } catch (const dnnl::error&) {  // not for these shapes
    return std::nullopt;
  }
}

// Where oneDNN has no such kernels, ours, in any floating dtype: `make` gives one for a limit of scratch, if it can.
template <class Make>
std::optional<Kernel> own_winograd(const Conv& c, const KernelCall& call, const Make& make) {
  const bool plain = !call.in(0).is_blocked() && !call.in(1).is_blocked() && !call.out().is_blocked();
  if (dnnl_prefers_blocks() || call.least_scratch || !plain || !has_winograd_shape(c)) return std::nullopt;
  const int64_t bytes = 4 * (call.in(0).elements() + call.in(1).elements() + call.out().elements());
  if (auto kernel = make(std::max(kUsualScratch * bytes, call.spare_bytes))) return kernel;
  return make(kMostScratch * bytes);
}

// The same in f32, or oneDNN's direct algorithm. When scratch counts more than speed, ours has to take less than that.
template <class Make, class MakeDirect>
Kernel by_own_winograd(const Conv& c, const KernelCall& call, const Make& make, const MakeDirect& make_direct) {
  if (const auto kernel = own_winograd(c, call, make)) return *kernel;
  const Kernel direct = make_direct(algorithm::convolution_direct, c.x[0]);
  const bool plain = !call.in(0).is_blocked() && !call.in(1).is_blocked() && !call.out().is_blocked();
  if (!call.least_scratch || dnnl_prefers_blocks() || !plain || !suits_winograd(c)) return direct;
  return make(direct.scratch_bytes).value_or(direct);
}

// Without AVX-512, in f16 and bf16: the kernel that computes them as they are, if there is one.
std::optional<Kernel> low_precision_forward(const KernelCall& call, const Epilogue& epilogue) {
  if (!has_low_precision(call)) return std::nullopt;
  const Conv c(call, call.in(0).shape, call.in(1).shape, call.out().shape);
  return own_winograd(c, call, [&](int64_t limit) { return winograd_forward(c, call, epilogue, limit); });
}

std::optional<Kernel> low_precision_backward_data(const KernelCall& call) {
  if (!has_low_precision(call)) return std::nullopt;
  const Conv c(call, call.out().shape, call.in(1).shape, call.in(0).shape);
  return own_winograd(c, call, [&](int64_t limit) { return winograd_backward_data(c, call, limit); });
}

std::optional<Kernel> low_precision_backward_weights(const KernelCall& call) {
  if (!has_low_precision(call)) return std::nullopt;
  const Conv c(call, call.in(1).shape, call.out().shape, call.in(0).shape);
  return own_winograd(c, call, [&](int64_t limit) { return winograd_backward_weights(c, call, limit); });
}

// The first `batch` samples.
TensorDesc part_of(TensorDesc tensor, int64_t batch) {
  std::vector<int64_t> dims(tensor.shape.dims().begin(), tensor.shape.dims().end());
  dims[0] = batch;
  tensor.shape = Shape(dims);
  return tensor;
}

Kernel conv(const KernelCall& call) { return conv_forward(call, {}); }

// dx of dy and w.
Kernel conv_backward_data(const KernelCall& call) {
  if (const auto kernel = low_precision_backward_data(call)) return *kernel;
  require_one_dtype(call);
  const Conv whole(call, call.out().shape, call.in(1).shape, call.in(0).shape);
  const auto make = [&](algorithm how, int64_t batch) {
    const Conv c = whole.with_batch(batch);
    const auto primitive = conv_backward_data_desc(how, c.any_layout(), c, dnnl_attributes(), forward_desc(c, how));
    DnnlKernel kernel(primitive);
    kernel.input(DNNL_ARG_DIFF_DST, 0, desc_of(part_of(call.in(0), batch)), primitive.diff_dst_desc());
    kernel.input(DNNL_ARG_WEIGHTS, 1, c.plain_w(), primitive.weights_desc());
    kernel.output(DNNL_ARG_DIFF_SRC, 0, desc_of(part_of(call.out(), batch)), primitive.diff_src_desc());
    return std::move(kernel).finish();
  };
  if (const auto kernel = by_winograd(whole, call, true, make)) return *kernel;
  const auto make_own = [&](int64_t limit) { return winograd_backward_data(whole, call, limit); };
  return by_own_winograd(whole, call, make_own, make);
}

ConvBackwardWeightsDesc backward_weights_desc(const Conv& c, algorithm how) {
  return conv_backward_weights_desc(how, c.any_layout(), c, dnnl_attributes(), forward_desc(c, how));
}

Kernel conv_backward_weights(const KernelCall& call) {
  if (const auto sizes = narrow_weights(call)) return narrow_weights_kernel(*sizes, call);
  if (const auto sizes = small_image_weights(call)) return small_image_weights_kernel(*sizes, call);
  if (const auto kernel = low_precision_backward_weights(call)) return *kernel;
  require_one_dtype(call);
  const auto narrow = narrow_conv(call.op, call.in(1).shape, call.out().shape, call.in(0).shape);
  if (narrow && !call.in(0).is_blocked() && !call.in(1).is_blocked()) return narrow_backward_weights(*narrow, call);
  const Conv c(call, call.in(1).shape, call.out().shape, call.in(0).shape);
  const auto make = [&](algorithm how, int64_t) {
    const auto primitive = backward_weights_desc(c, how);
    if (suits_unfolding(c, primitive)) return unfolded_backward_weights(c, call);
    DnnlKernel kernel(primitive);
    kernel.input(DNNL_ARG_DIFF_DST, 0, desc_of(call.in(0)), primitive.diff_dst_desc());
    kernel.input(DNNL_ARG_SRC, 1, desc_of(call.in(1)), primitive.src_desc());
    kernel.output(DNNL_ARG_DIFF_WEIGHTS, 0, c.plain_w(), primitive.diff_weights_desc());
    return std::move(kernel).finish();
  };
  if (const auto kernel = by_winograd(c, call, false, make)) return *kernel;
  const auto make_own = [&](int64_t limit) { return winograd_backward_weights(c, call, limit); };
  return by_own_winograd(c, call, make_own, make);
}

// ---- what goes with channels ----

// y += bias, by channel: the planes of the channels one after the other, each in lanes of as many channels as lie
// together.
template <int64_t kLanes>
void add_bias(float* y, const float* bias, int64_t positions) {
  vectorised([=] {
    for (int64_t i = 0; i < positions; ++i) {
      for (int64_t lane = 0; lane < kLanes; ++lane) y[i * kLanes + lane] += bias[lane];
    }
  });
}

// The gradient of a convolution's input, and a bias on every channel of it.
Kernel conv_transpose(const KernelCall& call) {
  const Kernel product = conv_backward_data(call);
  if (call.arity() < 3) return product;
  const Channels channels(call.out());
  return {product.scratch_bytes, [=, threads = call.threads](const Memory& m) -> Task {
            return [=, multiply = product.bind(m), bias = m.in<float>(2), y = m.out<float>()] {
              multiply();
              channels.for_each_plane(threads, [=](int64_t plane, int64_t first_channel) {
                float* at = y + plane * channels.plane_size();
                if (channels.lanes == 1) {
                  add_bias<1>(at, bias + first_channel, channels.positions);
                } else {
                  add_bias<kChannelBlock>(at, bias + first_channel, channels.positions);
                }
              });
            };
          }};
}

Kernel sum_rows_of_channels(const KernelCall& call) {
  const ChannelRows rows(call.in(0), call.threads);
  return {rows.scratch_bytes(1), [rows, tensor = call.out()](const Memory& m) -> Task {
            return [=, x = m.in<uint16_t>(0), y = WideOutput(tensor, m.outputs[0]), scratch = m.scratch] {
              rows.add_up(scratch, 1, [&](float* sums, int64_t row, int64_t count) {
                simd::functions().channels.sum(sums, x + row * rows.channels, count, rows.channels);
              });
              for (int64_t channel = 0; channel < rows.channels; ++channel) {
                float sum = 0;
                float* to = y.line(channel, &sum);
                *to = static_cast<float>(rows.sums(scratch)[channel]);
                y.keep(channel, 1, to);
              }
            };
          }};
}

Kernel channel_sum(const KernelCall& call) {
  if (!is_low_precision(call.in(0).dtype)) call.require_f32(0);
  if (call.in(0).is_channels_last()) return sum_rows_of_channels(call);
  const Channels channels(call.in(0));
  return {channels.workspace_bytes(call, 1),
          [=, tensors = std::pair(call.in(0), call.out()), threads = call.threads](const Memory& m) -> Task {
            return [=, x = WideInput(tensors.first, m.inputs[0]), y = WideOutput(tensors.second, m.outputs[0]),
                    scratch = m.scratch] {
              channels.for_each_group(threads, [=](int part, int64_t group) {
                LaneSums sums{};
                float* workspace = channels.workspace(scratch, 1, part, 0);
                for (int64_t n = 0; n < channels.batch; ++n) channels.add_plane(sums, x, n, group, workspace);
                const int64_t first = group * channels.lanes;
                std::array<float, kChannelBlock> narrow;
                float* to = y.line(first, narrow.data());
                for (int64_t lane = 0; lane < channels.lanes; ++lane) {
                  to[lane] = static_cast<float>(sums[static_cast<size_t>(lane)]);
                }
                y.keep(first, channels.lanes, to);
              });
            };
          }};
}

// Narrow ones are bound by memory, and have a way of their own in f32. Where there are AMX tiles that is the faster
// way for their gradients alone.
bool computes_forward(const KernelCall& call) {
  if (low_precision_forward(call, {})) return true;
  if (!dnnl_computes(call)) return false;
  return dnnl_has_amx_tiles() || !narrow_conv(call.op, call.in(0).shape, call.in(1).shape, call.out().shape);
}

bool computes_backward_data(const KernelCall& call) { return low_precision_backward_data(call) || dnnl_computes(call); }

bool computes_backward_weights(const KernelCall& call) {
  if (narrow_weights(call) || small_image_weights(call) || low_precision_backward_weights(call)) return true;
  if (!dnnl_computes(call) || narrow_conv(call.op, call.in(1).shape, call.out().shape, call.in(0).shape)) return false;
  const Conv c(call, call.in(1).shape, call.out().shape, call.in(0).shape);
  return !suits_unfolding(c, backward_weights_desc(c, algorithm::convolution_direct));
}

// Samples of the batch, which operand 0 and result 0 have.
Tiling by_samples(const KernelCall& call) {
  Tiling tiling = by_rows(call, {0}, {0});
  tiling.threaded = true;
  return tiling;
}

Tiling by_samples_of_both(const KernelCall& call) {
  Tiling tiling = by_rows(call, {0, 1}, {}, {0});
  tiling.threaded = true;
  return tiling;
}

}  // namespace

Kernel conv_forward(const KernelCall& call, const Epilogue& epilogue) {
  if (const auto kernel = low_precision_forward(call, epilogue)) return *kernel;
  require_one_dtype(call);
  const auto narrow = narrow_conv(call.op, call.in(0).shape, call.in(1).shape, call.out().shape);
  const bool in_plain_layout = call.in(0).dtype == DType::f32 && !call.in(0).is_blocked() && !call.out().is_blocked();
  if (narrow && in_plain_layout && !epilogue.onto) {
    const Kernel kernel = narrow_forward(*narrow, call);
    return epilogue.relu ? then_relu(kernel, call) : kernel;
  }
  const Conv whole(call, call.in(0).shape, call.in(1).shape, call.out().shape);
  const bool biased = call.arity() > 2;
  const auto make = [&](algorithm how, int64_t batch) {
    const Conv c = whole.with_batch(batch);
    const auto primitive = forward_desc(c, how, biased, epilogue.attributes());
    DnnlKernel kernel(primitive);
    kernel.input(DNNL_ARG_SRC, 0, desc_of(part_of(call.in(0), batch)), primitive.src_desc());
    kernel.input(DNNL_ARG_WEIGHTS, 1, c.plain_w(), primitive.weights_desc());
    if (biased) kernel.input(DNNL_ARG_BIAS, 2, c.bias(), c.bias());
    kernel.output(DNNL_ARG_DST, 0, desc_of(part_of(call.out(), batch)), primitive.dst_desc(), epilogue.onto);
    return std::move(kernel).finish();
  };
  if (const auto kernel = by_winograd(whole, call, true, make)) return *kernel;
  const auto make_own = [&](int64_t limit) { return winograd_forward(whole, call, epilogue, limit); };
  return by_own_winograd(whole, call, make_own, make);
}

void register_conv_cpu(KernelTable& table) {
  using Rule = Blocking::Rule;
  if (dnnl_prefers_blocks()) table.use_blocks();
  if (dnnl_has_amx_tiles() && tiles::has_units()) table.use_amx_tiles();
  const Blocking of_images{.rule = Rule::each, .inputs = {0}, .outputs = {0}, .gains = true};
  table.add("conv", {conv, contiguous_only, of_images, by_samples, computes_forward});
  table.add("conv_backward_data", {conv_backward_data, contiguous_only, of_images, by_samples, computes_backward_data});
  const Blocking of_both{.rule = Rule::each, .inputs = {0, 1}, .gains = true};
  table.add("conv_backward_weights",
            {conv_backward_weights, contiguous_only, of_both, by_samples_of_both, computes_backward_weights});
  table.add("conv_transpose", {conv_transpose, contiguous_only, of_images, by_samples});
  table.add("channel_sum", {channel_sum, contiguous_only, {.rule = Rule::each, .inputs = {0}}, nullptr, any_dtype});
}

}  // namespace plimsoll::kernels
