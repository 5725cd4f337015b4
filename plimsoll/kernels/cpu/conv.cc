// Convolutions, by oneDNN in the layouts that it likes; operands and results are in row-major order.
#include "plimsoll/base/bytes.h"
#include "plimsoll/kernels/cpu/support/dnnl.h"
#include "plimsoll/kernels/cpu/support/narrow_conv.h"
#include "plimsoll/kernels/cpu/support/parallel.h"
#include "plimsoll/program/window.h"

namespace plimsoll::kernels {
namespace {

using dnnl::memory;

// The shapes and the window of y = conv(x, w), whichever of the three an op computes, as oneDNN has them: groups are a
// dimension of the weights, dilation counts the elements between.
struct Conv {
  memory::dims x, w, y, stride, dilation, begin, end;

  Conv(const program::Call& call, const Shape& x_shape, const Shape& w_shape, const Shape& y_shape)
      : x(dims_of(x_shape)), w(dims_of(w_shape)), y(dims_of(y_shape)) {
    const program::Dims kernel(Shape(w_shape.dims().subspan(2)));
    const program::Window window = program::window_of(call, kernel);
    for (int axis = 0; axis < window.rank(); ++axis) {
      stride.push_back(window.stride[axis].constant());
      dilation.push_back(window.dilation[axis].constant() - 1);
      begin.push_back(window.begin[axis].constant());
      end.push_back(windows_end(window, axis));
    }
    const int64_t groups = call.integer("groups");
    if (groups == 1) return;
    w[0] /= groups;
    w.insert(w.begin(), groups);
  }

 private:
  // oneDNN wants the padding at the end that the windows reach: less when a remainder of x is left out.
  int64_t windows_end(const program::Window& window, int axis) const {
    const auto i = static_cast<size_t>(axis) + 2;
    const int64_t reach = (y[i] - 1) * window.stride[axis].constant() + window.span(axis).constant();
    return reach - x[i] - window.begin[axis].constant();
  }
};

constexpr auto kAlgorithm = dnnl::algorithm::convolution_direct;

using Forward = dnnl::convolution_forward;
using BackwardData = dnnl::convolution_backward_data;
using BackwardWeights = dnnl::convolution_backward_weights;

Forward::primitive_desc forward_desc(const Conv& c, dnnl::prop_kind kind, bool biased) {
  const auto x = any_desc(c.x);
  const auto w = any_desc(c.w);
  const auto y = any_desc(c.y);
  const auto desc =
      biased ? Forward::desc(kind, kAlgorithm, x, w, plain_desc({c.y[1]}), y, c.stride, c.dilation, c.begin, c.end)
             : Forward::desc(kind, kAlgorithm, x, w, y, c.stride, c.dilation, c.begin, c.end);
  return {desc, dnnl_attributes(), dnnl_engine()};
}

void require_all_f32(const Use& use) {
  for (int i = 0; i < use.arity(); ++i) use.require_f32(i);
}

Kernel conv(const Use& use) {
  require_all_f32(use);
  const auto narrow = narrow_conv(use.call, use.in(0).shape, use.in(1).shape, use.out().shape);
  if (narrow) return narrow_forward(*narrow, use);
  const Conv c(use.call, use.in(0).shape, use.in(1).shape, use.out().shape);
  const auto primitive = forward_desc(c, dnnl::prop_kind::forward_inference, use.arity() > 2);
  DnnlKernel kernel(primitive);
  kernel.input(DNNL_ARG_SRC, 0, plain_desc(c.x), primitive.src_desc());
  kernel.input(DNNL_ARG_WEIGHTS, 1, plain_desc(c.w), primitive.weights_desc());
  if (use.arity() > 2) kernel.input(DNNL_ARG_BIAS, 2, plain_desc({c.y[1]}), plain_desc({c.y[1]}));
  kernel.output(DNNL_ARG_DST, 0, plain_desc(c.y), primitive.dst_desc());
  return std::move(kernel).finish();
}

// dx of dy and w.
Kernel data_kernel(const Conv& c) {
  const BackwardData::desc desc(kAlgorithm, any_desc(c.x), any_desc(c.w), any_desc(c.y), c.stride, c.dilation, c.begin,
                                c.end);
  const auto hint = forward_desc(c, dnnl::prop_kind::forward_training, false);
  const BackwardData::primitive_desc primitive(desc, dnnl_attributes(), dnnl_engine(), hint);
  DnnlKernel kernel(primitive);
  kernel.input(DNNL_ARG_DIFF_DST, 0, plain_desc(c.y), primitive.diff_dst_desc());
  kernel.input(DNNL_ARG_WEIGHTS, 1, plain_desc(c.w), primitive.weights_desc());
  kernel.output(DNNL_ARG_DIFF_SRC, 0, plain_desc(c.x), primitive.diff_src_desc());
  return std::move(kernel).finish();
}

Kernel conv_backward_data(const Use& use) {
  require_all_f32(use);
  return data_kernel(Conv(use.call, use.out().shape, use.in(1).shape, use.in(0).shape));
}

Kernel conv_backward_weights(const Use& use) {
  require_all_f32(use);
  const auto narrow = narrow_conv(use.call, use.in(1).shape, use.out().shape, use.in(0).shape);
  if (narrow) return narrow_backward_weights(*narrow, use);
  const Conv c(use.call, use.in(1).shape, use.out().shape, use.in(0).shape);
  const BackwardWeights::desc desc(kAlgorithm, any_desc(c.x), any_desc(c.w), any_desc(c.y), c.stride, c.dilation,
                                   c.begin, c.end);
  const auto hint = forward_desc(c, dnnl::prop_kind::forward_training, false);
  const BackwardWeights::primitive_desc primitive(desc, dnnl_attributes(), dnnl_engine(), hint);
  DnnlKernel kernel(primitive);
  kernel.input(DNNL_ARG_DIFF_DST, 0, plain_desc(c.y), primitive.diff_dst_desc());
  kernel.input(DNNL_ARG_SRC, 1, plain_desc(c.x), primitive.src_desc());
  kernel.output(DNNL_ARG_DIFF_WEIGHTS, 0, plain_desc(c.w), primitive.diff_weights_desc());
  return std::move(kernel).finish();
}

// [batch, channels, ..] as planes.
struct Planes {
  int64_t batch, channels, size;

  explicit Planes(const Shape& shape)
      : batch(shape[0]), channels(shape[1]), size(Shape(shape.dims().subspan(2)).elements()) {}
};

// The gradient of a convolution's input, and a bias on every channel of it.
Kernel conv_transpose(const Use& use) {
  require_all_f32(use);
  const Kernel product = data_kernel(Conv(use.call, use.out().shape, use.in(1).shape, use.in(0).shape));
  if (use.arity() < 3) return product;
  const Planes planes(use.out().shape);
  return {product.scratch_bytes, [=, threads = use.threads](const Memory& m) -> Task {
            return [=, multiply = product.bind(m), bias = m.in<float>(2), y = m.out<float>()] {
              multiply();
              parallel(threads, planes.batch * planes.channels, kGrain / (planes.size + 1) + 1,
                       [=](int, int64_t begin, int64_t end) {
                         for (int64_t plane = begin; plane < end; ++plane) {
                           const float add = bias[plane % planes.channels];
                           float* at = y + plane * planes.size;
                           for (int64_t i = 0; i < planes.size; ++i) at[i] += add;
                         }
                       });
            };
          }};
}

PLIMSOLL_VECTORISED float plane_sum(const float* x, int64_t count) {
  float sum = 0;
#pragma omp simd reduction(+ : sum)
  for (int64_t i = 0; i < count; ++i) sum += x[i];
  return sum;
}

Kernel channel_sum(const Use& use) {
  use.require_f32(0);
  const Planes planes(use.in(0).shape);
  return plain([planes, threads = use.threads](const Memory& m) -> Task {
    return [=, x = m.in<float>(0), y = m.out<float>()] {
      const int64_t grain = kGrain / (planes.batch * planes.size + 1) + 1;
      parallel(threads, planes.channels, grain, [=](int, int64_t begin, int64_t end) {
        for (int64_t channel = begin; channel < end; ++channel) {
          float sum = 0;
          for (int64_t n = 0; n < planes.batch; ++n) {
            sum += plane_sum(x + (n * planes.channels + channel) * planes.size, planes.size);
          }
          y[channel] = sum;
        }
      });
    };
  });
}

}  // namespace

void register_conv_cpu(KernelTable& table) {
  table.add("conv", {conv});
  table.add("conv_backward_data", {conv_backward_data});
  table.add("conv_backward_weights", {conv_backward_weights});
  table.add("conv_transpose", {conv_transpose});
  table.add("channel_sum", {channel_sum});
}

}  // namespace plimsoll::kernels
