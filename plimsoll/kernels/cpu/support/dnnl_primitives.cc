#include "plimsoll/kernels/cpu/support/dnnl_primitives.h"

#include "plimsoll/kernels/cpu/support/dnnl.h"

namespace plimsoll::kernels {
namespace {

// oneDNN 2 describes the operation first, then the primitive; oneDNN 3 takes the operation's arguments at once.
#if DNNL_VERSION_MAJOR >= 3
template <class Primitive, class... Arguments>
typename Primitive::primitive_desc describe(const dnnl::primitive_attr& attributes, const Arguments&... arguments) {
  return {dnnl_engine(), arguments..., attributes};
}

template <class Primitive, class... Arguments>
typename Primitive::primitive_desc describe_backward(const dnnl::primitive_attr& attributes,
                                                     const ConvForwardDesc& forward, const Arguments&... arguments) {
  return {dnnl_engine(), arguments..., forward, attributes};
}

void append_eltwise(dnnl::post_ops& operations, dnnl::algorithm algorithm) {
  operations.append_eltwise(algorithm, 0, 0);
}
#else
template <class Primitive, class... Arguments>
typename Primitive::primitive_desc describe(const dnnl::primitive_attr& attributes, const Arguments&... arguments) {
  return {typename Primitive::desc(arguments...), attributes, dnnl_engine()};
}

template <class Primitive, class... Arguments>
typename Primitive::primitive_desc describe_backward(const dnnl::primitive_attr& attributes,
                                                     const ConvForwardDesc& forward, const Arguments&... arguments) {
  return {typename Primitive::desc(arguments...), attributes, dnnl_engine(), forward};
}

void append_eltwise(dnnl::post_ops& operations, dnnl::algorithm algorithm) {
  operations.append_eltwise(1, algorithm, 0, 0);
}
#endif

bool has_winograd() {
  constexpr int64_t kSize = 64;
  const auto image = any_desc({1, kSize, kSize, kSize}, DType::f32);
  const ConvOperands operands{image, any_desc({kSize, kSize, 3, 3}, DType::f32), image};
  const ConvWindow window{{1, 1}, {0, 0}, {1, 1}, {1, 1}};
  try {
    conv_forward_desc(dnnl::prop_kind::forward_training, dnnl::algorithm::convolution_winograd, operands, window,
                      dnnl_attributes());
    return true;
  } catch (const dnnl::error&) {
    return false;
  }
}

}  // namespace

bool dnnl_has_winograd() {
  static const bool has = has_winograd();
  return has;
}

void append_relu(dnnl::post_ops& operations) { append_eltwise(operations, dnnl::algorithm::eltwise_relu); }

MatmulDesc matmul_desc(const dnnl::memory::desc& a, const dnnl::memory::desc& b, const dnnl::memory::desc& y,
                       const dnnl::primitive_attr& attributes, const dnnl::memory::desc& bias) {
  if (bias.is_zero()) return describe<dnnl::matmul>(attributes, a, b, y);
  return describe<dnnl::matmul>(attributes, a, b, bias, y);
}

ConvForwardDesc conv_forward_desc(dnnl::prop_kind kind, dnnl::algorithm algorithm, const ConvOperands& operands,
                                  const ConvWindow& window, const dnnl::primitive_attr& attributes) {
  using Forward = dnnl::convolution_forward;
  const auto& [x, w, y, bias] = operands;
  const auto& [stride, dilation, begin, end] = window;
  if (bias.is_zero()) {
    return describe<Forward>(attributes, kind, algorithm, x, w, y, stride, dilation, begin, end);
  }
  return describe<Forward>(attributes, kind, algorithm, x, w, bias, y, stride, dilation, begin, end);
}

ConvBackwardDataDesc conv_backward_data_desc(dnnl::algorithm algorithm, const ConvOperands& operands,
                                             const ConvWindow& window, const dnnl::primitive_attr& attributes,
                                             const ConvForwardDesc& forward) {
  const auto& [x, w, y, bias] = operands;
  return describe_backward<dnnl::convolution_backward_data>(attributes, forward, algorithm, x, w, y, window.stride,
                                                            window.dilation, window.begin, window.end);
}

ConvBackwardWeightsDesc conv_backward_weights_desc(dnnl::algorithm algorithm, const ConvOperands& operands,
                                                   const ConvWindow& window, const dnnl::primitive_attr& attributes,
                                                   const ConvForwardDesc& forward) {
  const auto& [x, w, y, bias] = operands;
  return describe_backward<dnnl::convolution_backward_weights>(attributes, forward, algorithm, x, w, y, window.stride,
                                                               window.dilation, window.begin, window.end);
}

}  // namespace plimsoll::kernels
