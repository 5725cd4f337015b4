// Normalisations.
#include <fmt/format.h>

#include "plimsoll/models/onnx/node.h"
#include "plimsoll/models/onnx/norms.h"
#include "plimsoll/models/onnx/windows.h"
#include "plimsoll/program/ops/constant.h"
#include "plimsoll/program/ops/elementwise_binary.h"
#include "plimsoll/program/ops/elementwise_unary.h"
#include "plimsoll/program/ops/norm.h"
#include "plimsoll/program/ops/reduce.h"
#include "plimsoll/program/ops/shape.h"

namespace plimsoll::models::onnx_import {

namespace p = program;

// Weights of the shape that is normalised over go into the op; others, which broadcast, follow it.
Value layer_norm_of(NodeCall& call, Value x, int weight_at, int bias_at, int axis, double eps, bool centred) {
  Builder& b = call.b;
  const Dims shape = b.shape(x);
  Dims inner;
  for (int i = axis; i < shape.rank(); ++i) inner.push_back(shape[i]);
  const bool weighted = call.has(weight_at);
  const bool biased = bias_at >= 0 && call.has(bias_at);
  const bool fits =
      (!weighted || call.shape(weight_at) == inner) && (!biased || (weighted && call.shape(bias_at) == inner));
  const p::LayerNormOptions options{.axis = axis, .eps = eps};
  const Value weight = fits && weighted ? call.in.wide_weight(call.tensor(weight_at)) : Value{};
  const Value bias = fits && biased ? call.in.wide_weight(call.tensor(bias_at)) : Value{};
  if (centred) {
    Value y = p::layer_norm(b, x, weight, bias, options);
    if (!fits && weighted) y = p::mul(b, y, call.compact(weight_at));
    if (!fits && biased) y = p::add(b, y, call.compact(bias_at));
    return y;
  }
  Value y = p::rms_norm(b, x, weight, options);
  if (!fits && weighted) y = p::mul(b, y, call.compact(weight_at));
  if (biased) y = p::add(b, y, call.compact(bias_at));
  return y;
}

namespace {

// Mean and variance over the batch, as the node says, with the running ones it would leave.
void import_batch_norm_as_written(NodeCall& call) {
  Builder& b = call.b;
  const Value x = call.value(0);
  Dims axes;
  Dims line;
  for (int i = 0; i < call.rank(0); ++i) {
    if (i != 1) axes.push_back(i);
    line.push_back(i == 1 ? call.shape(0)[1] : Dim(1));
  }
  const double eps = call.real("epsilon", 1e-5);
  const double momentum = call.real("momentum", 0.9);
  call.set_same(p::batch_norm(b, x, call.value(1), call.value(2), eps));
  const Value mean = p::mean(b, x, {.axes = axes});
  const Value variance = p::var(b, x, {.axes = axes}, 0);
  const auto next = [&](Value old, Value now) {
    return p::add(b, p::affine(b, old, {.scale = momentum}), p::affine(b, now, {.scale = 1 - momentum}));
  };
  call.set(1, next(call.value(3), mean), call.element_type(0));
  call.set(2, next(call.value(4), variance), call.element_type(0));
}

void import_batch_norm(NodeCall& call) {
  Builder& b = call.b;
  const bool in_training = call.flag("training_mode");
  if (call.in.options().as_written && in_training) return import_batch_norm_as_written(call);
  const double eps = call.real("epsilon", 1e-5);
  const Value x = call.value(0);
  const Value weight = call.in.wide_weight(call.tensor(1));
  const Value bias = call.in.wide_weight(call.tensor(2));
  const Value mean = call.in.running_statistic(call.tensor(3));
  const Value variance = call.in.running_statistic(call.tensor(4));
  Net& net = call.in.net;
  if (net.training() && call.tensor(3).weight && call.tensor(4).weight) {
    const p::RunningStatistics running{mean, variance, 1 - call.real("momentum", 0.9)};
    call.set_same(p::batch_norm(b, x, weight, bias, running, eps));
  } else {
    if (net.training())
      call.in.note("batch normalisation without running statistics of its own stays in inference mode");
    call.set_same(p::batch_norm_inference(b, x, weight, bias, mean, variance, eps));
  }
  if (call.wants(1)) call.set(1, mean, call.element_type(0));
  if (call.wants(2)) call.set(2, variance, call.element_type(0));
}

void import_layer_norm(NodeCall& call) {
  Builder& b = call.b;
  const int axis = call.axis(call.integer("axis", -1), call.rank(0));
  const double eps = call.real("epsilon", 1e-5);
  const Value x = call.value(0);
  call.set_same(layer_norm_of(call, x, 1, 2, axis, eps, true));
  if (!call.wants(1) && !call.wants(2)) return;
  Dims axes;
  for (int i = axis; i < call.rank(0); ++i) axes.push_back(i);
  const Value mean = p::mean(b, x, {.axes = axes, .keepdims = true});
  const Value variance = p::mean(b, p::square(b, p::sub(b, x, mean)), {.axes = axes, .keepdims = true});
  call.set(1, mean, TensorProto::FLOAT);
  call.set(2, p::rsqrt(b, p::affine(b, variance, {.shift = eps})), TensorProto::FLOAT);
}

void import_rms_norm(NodeCall& call) {
  const int axis = call.axis(call.integer("axis", -1), call.rank(0));
  call.set_same(layer_norm_of(call, call.value(0), 1, -1, axis, call.real("epsilon", 1e-5), false));
}

void import_instance_norm(NodeCall& call) {
  call.set_same(p::instance_norm(call.b, call.value(0), call.in.wide_weight(call.tensor(1)),
                                 call.in.wide_weight(call.tensor(2)), call.real("epsilon", 1e-5)));
}

// Before version 21 scale and bias were one for each group.
void import_group_norm(NodeCall& call) {
  Builder& b = call.b;
  const int64_t groups = call.integer("num_groups", 1);
  const double eps = call.real("epsilon", 1e-5);
  const Dims shape = call.shape(0);
  if (call.opset >= 21 || call.shape(1)[0] == shape[1]) {
    return call.set_same(p::group_norm(b, call.value(0), groups, call.in.wide_weight(call.tensor(1)),
                                       call.in.wide_weight(call.tensor(2)), eps));
  }
  const Dim each = floor_div(shape[1], groups);
  const auto spread = [&](int i) {
    const Value wide = p::expand(b, p::reshape(b, call.value(i), {groups, 1}), {groups, each});
    Dims line = {shape[1]};
    for (int k = 2; k < shape.rank(); ++k) line.push_back(1);
    return p::reshape(b, wide, line);
  };
  const Value y = p::group_norm(b, call.value(0), groups, {}, {}, eps);
  call.set_same(p::add(b, p::mul(b, y, spread(1)), spread(2)));
}

void import_mean_variance(NodeCall& call) {
  Builder& b = call.b;
  std::vector<int64_t> given = call.integers("axes");
  if (given.empty()) given = {0, 2, 3};
  for (int64_t& axis : given) axis = call.axis(axis, call.rank(0));
  const p::ReduceOptions over{.axes = dims_from(given), .keepdims = true};
  const Value x = call.value(0);
  const Value centred = p::sub(b, x, p::mean(b, x, over));
  const Value deviation = p::sqrt(b, p::mean(b, p::square(b, centred), over));
  call.set_same(p::div(b, centred, p::affine(b, deviation, {.shift = 1e-9})));
}

void import_lp_normalization(NodeCall& call) {
  Builder& b = call.b;
  const int axis = call.axis(call.integer("axis", -1), call.rank(0));
  const int64_t power = call.integer("p", 2);
  call.require(power == 1 || power == 2, "p of 1 or 2");
  const Value x = call.value(0);
  const p::ReduceOptions over{.axes = {axis}, .keepdims = true};
  const Value length = power == 1 ? p::sum(b, p::abs(b, x), over) : p::norm2(b, x, over);
  const Value none = p::eq(b, length, call.scalar(0, call.dtype(0)));
  call.set_same(p::div(b, x, p::where(b, none, call.scalar(1, call.dtype(0)), length)));
}

constexpr RuleEntry kNormRules[] = {
    {"BatchNormalization", import_batch_norm},
    {"LayerNormalization", import_layer_norm},
    {"RMSNormalization", import_rms_norm},
    {"SimplifiedLayerNormalization", import_rms_norm},
    {"InstanceNormalization", import_instance_norm},
    {"GroupNormalization", import_group_norm},
    {"MeanVarianceNormalization", import_mean_variance},
    {"LpNormalization", import_lp_normalization},
};

}  // namespace

RuleFamily norm_rules() { return {"", kNormRules}; }

}  // namespace plimsoll::models::onnx_import
