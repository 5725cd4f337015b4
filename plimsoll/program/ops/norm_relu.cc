// Batch normalisation with the ReLU that follows it, and a sum between them: relu(batch_norm(x) + residual) as two ops,
// its statistics and the pass that applies them, and its backward. The second alone is what a plan computes again. The
// pass fuse_norm_relus makes them from whole steps; they have no gradients.
//
//   %mean, %rstd, %variance = batch_norm_statistics(%x)
//   %y, %mask = batch_norm_relu(%x, %mean, %rstd, %weight, %bias, %residual)
//   %dx, %dweight, %dbias, %dresidual = batch_norm_relu_backward(%dy, %mask, %x, %mean, %rstd, %weight)
//
// The mask has a bit for each element of y above zero; the backward op reads dy where it is set and 0 elsewhere, which
// is also the gradient of the residual.
#include "plimsoll/program/op.h"
#include "plimsoll/program/shape_rules.h"

namespace plimsoll::program {
namespace {

Type statistics_of(const Type& x) { return {x.dtype == DType::f64 ? DType::f64 : DType::f32, {x.shape[1]}}; }

void require_channels(const OpCall& call, int x) {
  call.require_floating(x);
  call.require(call.shape(x).rank() >= 2, "x must be [batch, channels, ..]");
}

void require_statistics(const OpCall& call, int mean, const Type& x) {
  const Type statistics = statistics_of(x);
  call.require(call.input(mean) == statistics && call.input(mean + 1) == statistics,
               "mean and rstd must be [channels]");
}

void require_parameter(const OpCall& call, int operand, const Type& x) {
  const Type& given = call.input(operand);
  const bool fits = given == statistics_of(x) || given == Type{x.dtype, {x.shape[1]}};
  call.require(fits, "weight and bias must be [channels], in the dtype of x or of its statistics");
}

std::vector<Type> infer_statistics(const OpCall& call) {
  require_channels(call, 0);
  const Type statistics = statistics_of(call.input(0));
  return {statistics, statistics, statistics};
}

std::vector<Type> infer_forward(const OpCall& call) {
  require_channels(call, 0);
  const Type& x = call.input(0);
  require_statistics(call, 1, x);
  require_parameter(call, 3, x);
  call.require_same(3, 4);
  if (call.arity() > 5) call.require_same(0, 5);
  return {x, bit_mask(x.shape)};
}

std::vector<Type> infer_backward(const OpCall& call) {
  require_channels(call, 0);
  call.require_same(0, 2);
  const Type& x = call.input(2);
  call.require(call.input(1) == bit_mask(x.shape), "mask must have a bit for each element of x");
  require_statistics(call, 3, x);
  require_parameter(call, 5, x);
  return {x, call.input(5), call.input(5), x};
}

AttributeSpec eps() { return {"eps", AttributeKind::real, Attribute(1e-5)}; }

}  // namespace

void register_norm_relu(OpTable& table) {
  table.add({.name = "batch_norm_statistics",
             .inputs = {"x"},
             .outputs = {"mean", "rstd?", "variance?"},
             .attributes = {eps()},
             .infer = infer_statistics,
             .flops = [](const OpCall& call) { return Dim(4) * call.shape(0).elements(); },
             .traits = {.batch_statistics = true}});
  table.add({.name = "batch_norm_relu",
             .inputs = {"x", "mean", "rstd", "weight", "bias", "residual?"},
             .outputs = {"y", "mask?"},
             .infer = infer_forward,
             .in_place = {0, 5},
             .flops = [](const OpCall& call) { return Dim(6) * call.shape(0).elements(); },
             .traits = {.sign = Sign::non_negative}});
  table.add({.name = "batch_norm_relu_backward",
             .inputs = {"dy", "mask", "x", "mean", "rstd", "weight"},
             .outputs = {"dx", "dweight?", "dbias?", "dresidual?"},
             .attributes = {eps()},
             .infer = infer_backward,
             .in_place = {0, 2},
             .flops = [](const OpCall& call) { return Dim(14) * call.shape(0).elements(); }});
}

}  // namespace plimsoll::program
