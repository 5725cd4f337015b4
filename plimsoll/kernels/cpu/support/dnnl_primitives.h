// Descriptors of oneDNN's primitives, made alike for oneDNN 2 and 3: the one place that knows which of them it is.
// All throw dnnl::error where oneDNN has no implementation. Scratchpads come from the caller, by the attributes.
#pragma once

#include <oneapi/dnnl/dnnl.hpp>

namespace plimsoll::kernels {

using MatmulDesc = dnnl::matmul::primitive_desc;
using ConvForwardDesc = dnnl::convolution_forward::primitive_desc;
using ConvBackwardDataDesc = dnnl::convolution_backward_data::primitive_desc;
using ConvBackwardWeightsDesc = dnnl::convolution_backward_weights::primitive_desc;

// The result cut at zero.
void append_relu(dnnl::post_ops& operations);

// y = a b, plus the bias; {} for none.
MatmulDesc matmul_desc(const dnnl::memory::desc& a, const dnnl::memory::desc& b, const dnnl::memory::desc& y,
                       const dnnl::primitive_attr& attributes, const dnnl::memory::desc& bias = {});

// Whether oneDNN has Winograd's algorithm for 3x3 convolutions in f32 here: version 2 does where there is AVX-512,
// version 3 dropped it.
bool dnnl_has_winograd();

// y = conv(x, w), whichever of the three is computed.
struct ConvOperands {
  dnnl::memory::desc x, w, y;
  dnnl::memory::desc bias = {};  // of the forward pass; {} for none
};

// Dilation counts the elements between.
struct ConvWindow {
  dnnl::memory::dims stride, dilation, begin, end;
};

ConvForwardDesc conv_forward_desc(dnnl::prop_kind kind, dnnl::algorithm algorithm, const ConvOperands& operands,
                                  const ConvWindow& window, const dnnl::primitive_attr& attributes);
// The gradients, with the forward pass that they belong to.
ConvBackwardDataDesc conv_backward_data_desc(dnnl::algorithm algorithm, const ConvOperands& operands,
                                             const ConvWindow& window, const dnnl::primitive_attr& attributes,
                                             const ConvForwardDesc& forward);
ConvBackwardWeightsDesc conv_backward_weights_desc(dnnl::algorithm algorithm, const ConvOperands& operands,
                                                   const ConvWindow& window, const dnnl::primitive_attr& attributes,
                                                   const ConvForwardDesc& forward);

}  // namespace plimsoll::kernels
