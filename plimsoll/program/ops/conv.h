// Convolutions over one to three spatial dimensions. x is [batch, channels, spatial ..]; groups = channels is
// depthwise.
#pragma once

#include "plimsoll/program/builder.h"

namespace plimsoll::program {

// Lists are empty (stride and dilation 1, no padding), one number for all spatial dimensions, or one for each; padding
// also one for each side, those before first: {top, left, bottom, right}.
struct ConvOptions {
  Dims stride = {};
  Dims padding = {};
  Dims dilation = {};
  int64_t groups = 1;
};

struct ConvTransposeOptions {
  Dims stride = {};
  Dims padding = {};
  Dims dilation = {};
  Dims output_padding = {};  // added after the end of each spatial dimension; less than the stride
  int64_t groups = 1;
};

// w is [out channels, channels / groups, kernel ..], bias [out channels] or nothing. Backward: the gradient of x reads
// w, that of w reads x, that of bias neither.
Value conv(Builder& b, Value x, Value w, Value bias = {}, const ConvOptions& options = {});

// The transpose of conv: what conv with the same w and options makes of y's shape is x's. w is [channels,
// out channels / groups, kernel ..]. Backward reads as that of conv.
Value conv_transpose(Builder& b, Value x, Value w, Value bias = {}, const ConvTransposeOptions& options = {});

// Gradients of conv: `shape` is that of x, or of w.
Value conv_backward_data(Builder& b, Value dy, Value w, const Dims& shape, const ConvOptions& options = {});
Value conv_backward_weights(Builder& b, Value dy, Value x, const Dims& shape, const ConvOptions& options = {});

// What conv makes of x and w, by the attributes of the call; rejects what does not fit. For ops with its attributes.
Dims conv_shape(const OpCall& call, const Dims& x, const Dims& w);
std::vector<AttributeSpec> conv_attributes();

// The sum over all dimensions but dimension 1, the channels: the gradient of a bias.
Value channel_sum(Builder& b, Value x);

}  // namespace plimsoll::program
