// Normalisations: y = (x - mean) / sqrt(variance + eps) * weight + bias, which differ in the elements that a mean and a
// variance are taken of. Statistics are f32 (f64 for an f64 x). weight and bias may be left out; they have the dtype of
// x or of the statistics. Backward reads x, the saved mean and 1 / sqrt(variance + eps), and weight: one op makes all
// gradients.
#pragma once

#include "plimsoll/program/builder.h"

namespace plimsoll::program {

struct LayerNormOptions {
  int64_t axis = -1;  // the first dimension that is normalised over; all after it are, too
  double eps = 1e-5;
};

// weight and bias have the shape of what is normalised over: x's from `axis` on.
Value layer_norm(Builder& b, Value x, Value weight = {}, Value bias = {}, const LayerNormOptions& options = {});

// Without mean and bias: x / sqrt(mean of x * x + eps) * weight.
Value rms_norm(Builder& b, Value x, Value weight = {}, const LayerNormOptions& options = {});

// x is [batch, channels, ..]; each sample's channels are normalised in `groups` groups. weight and bias are [channels].
Value group_norm(Builder& b, Value x, Dim groups, Value weight = {}, Value bias = {}, double eps = 1e-5);

// Each channel of each sample by itself: group_norm with as many groups as channels.
Value instance_norm(Builder& b, Value x, Value weight = {}, Value bias = {}, double eps = 1e-5);

// What batch normalisation keeps from step to step for inference, each [channels]: values of the program's state.
struct RunningStatistics {
  Value mean;
  Value variance;
  double momentum = 0.1;  // the weight of the newest batch
};

// x is [batch, channels, ..]; each channel is normalised over the batch. With `running` an op of the update phase
// overwrites it: (1 - momentum) * old + momentum * new, the new variance divided by the count less one. The
// normalisation itself changes nothing, so it can be run again.
Value batch_norm(Builder& b, Value x, Value weight = {}, Value bias = {}, double eps = 1e-5);
Value batch_norm(Builder& b, Value x, Value weight, Value bias, const RunningStatistics& running, double eps = 1e-5);

// With given statistics, which get no gradient. The gradient of x reads weight and variance only.
Value batch_norm_inference(Builder& b, Value x, Value weight, Value bias, Value mean, Value variance,
                           double eps = 1e-5);

}  // namespace plimsoll::program
