#include "plimsoll/program/ops/norm.h"

#include <fmt/format.h>

#include "plimsoll/base/error.h"
#include "plimsoll/program/autodiff.h"

namespace plimsoll::program {
namespace {

// Shapes of the statistics and of weight and bias.
struct NormShapes {
  Dims statistics;
  Dims parameters;
};

// What a kind of normalisation is.
struct NormKind {
  std::string name;
  bool centred;  // whether there is a mean; saves and reads it, and has a bias
  NormShapes (*shapes)(const OpCall&);
  std::vector<AttributeSpec> attributes;
  std::vector<std::string> more_outputs = {};  // statistics that backward does not read
};

// Statistics that the op makes, the mean before the others.
int statistics_of(const NormKind& norm) { return (norm.centred ? 2 : 1) + static_cast<int>(norm.more_outputs.size()); }

AttributeSpec eps() { return {"eps", AttributeKind::real, Attribute(1e-5)}; }
AttributeSpec axis() { return {"axis", AttributeKind::integer, Attribute(-1)}; }

NormShapes layer_shapes(const OpCall& call) {
  const Dims& x = call.shape(0);
  const Dim* first = x.begin() + call.axis("axis");
  return {Dims(std::span(x.begin(), first)), Dims(std::span(first, x.end()))};
}

void require_channels(const OpCall& call) {
  call.require(call.shape(0).rank() >= 2, "x must be [batch, channels, ..]");
}

NormShapes group_shapes(const OpCall& call) {
  require_channels(call);
  const Dim channels = call.shape(0)[1];
  const Dim groups = call.dim("groups");
  call.require(!groups.is_constant() || groups.constant() >= 1, "groups must be at least 1");
  const bool known = channels.is_constant() && groups.is_constant();
  if (known && channels.constant() % groups.constant() != 0) {
    call.reject(fmt::format("the channels ({}) must be a multiple of groups ({})", channels.text(), groups.text()));
  }
  return {{call.shape(0)[0], groups}, {channels}};
}

NormShapes batch_shapes(const OpCall& call) {
  require_channels(call);
  return {{call.shape(0)[1]}, {call.shape(0)[1]}};
}

DType statistics_dtype(const Type& x) { return x.dtype == DType::f64 ? DType::f64 : DType::f32; }

// weight and bias are the operands from `first` on, as far as given.
void require_parameters(const OpCall& call, const Dims& shape, int first) {
  const Type like_x{call.input(0).dtype, shape};
  const Type like_statistics{statistics_dtype(call.input(0)), shape};
  for (int i = first; i < call.arity(); ++i) {
    if (call.input(i) != like_x && call.input(i) != like_statistics) {
      const std::string other = like_x == like_statistics ? "" : " or " + like_statistics.text();
      call.reject(fmt::format("{} must be {}{}", call.def.input_name(i), like_x.text(), other));
    }
    call.require_same(i, first);
  }
}

std::vector<Type> infer_norm(const NormKind& norm, const OpCall& call) {
  call.require_floating(0);
  const NormShapes shapes = norm.shapes(call);
  require_parameters(call, shapes.parameters, 1);
  const auto results = static_cast<size_t>(1 + statistics_of(norm));
  std::vector<Type> types(results, {statistics_dtype(call.input(0)), shapes.statistics});
  types[0] = call.input(0);
  return types;
}

std::vector<Type> infer_norm_backward(const NormKind& norm, const OpCall& call) {
  call.require_floating(0);
  call.require_same(0, 1);
  const NormShapes shapes = norm.shapes(call);
  const int weight = norm.centred ? 4 : 3;
  const Type statistics{statistics_dtype(call.input(0)), shapes.statistics};
  for (int i = 2; i < weight; ++i) {
    if (call.input(i) != statistics) {
      call.reject(fmt::format("{} must be {}", call.def.input_name(i), statistics.text()));
    }
  }
  require_parameters(call, shapes.parameters, weight);
  const DType dtype = call.arity() > weight ? call.input(weight).dtype : call.input(0).dtype;
  std::vector<Type> types(norm.centred ? 3 : 2, {dtype, shapes.parameters});
  types[0] = call.input(0);
  return types;
}

void require_no_gradient_of_statistics(const NormKind& norm, const Gradient& g) {
  for (int k = 1; k <= statistics_of(norm); ++k) {
    if (!g.of_output(k)) continue;
    throw ArgumentError(fmt::format("{}: a gradient is asked of the statistics that %{} is made with; they have none",
                                    norm.name, g.b.program()[g.output()].name));
  }
}

void differentiate_norm(const NormKind& norm, Gradient& g) {
  require_no_gradient_of_statistics(norm, g);
  std::vector<Value> reads = {g.of_output(), g.input(0), g.saved(1)};
  if (norm.centred) reads.push_back(g.saved(2));
  if (g.arity() > 1) reads.push_back(g.input(1));
  g.set(0, g.b.emit(norm.name + "_backward", reads, g.attributes()));
  const size_t backward = g.b.program().ops.size() - 1;
  for (int i = 1; i < g.arity(); ++i) {
    if (g.wants(i)) g.set(i, g.b.optional_output(backward, static_cast<size_t>(i)));
  }
}

std::function<Dim(const OpCall&)> flops_for_each_element(int64_t flops) {
  return [flops](const OpCall& call) { return Dim(flops) * call.shape(0).elements(); };
}

// A normalisation and its backward op.
void add_pair(OpTable& table, const NormKind& norm) {
  using Names = std::vector<std::string>;
  Names outputs = norm.centred ? Names{"y", "mean?", "rstd?"} : Names{"y", "rstd?"};
  outputs.insert(outputs.end(), norm.more_outputs.begin(), norm.more_outputs.end());
  table.add({.name = norm.name,
             .inputs = norm.centred ? Names{"x", "weight?", "bias?"} : Names{"x", "weight?"},
             .outputs = outputs,
             .attributes = norm.attributes,
             .infer = [norm](const OpCall& call) { return infer_norm(norm, call); },
             .gradient = [norm](Gradient& g) { differentiate_norm(norm, g); },
             .in_place = {0},
             .flops = flops_for_each_element(norm.centred ? 8 : 4),
             .traits = {.batch_statistics = norm.name == "batch_norm"}});
  table.add({.name = norm.name + "_backward",
             .inputs = norm.centred ? Names{"dy", "x", "mean", "rstd", "weight?"} : Names{"dy", "x", "rstd", "weight?"},
             .outputs = norm.centred ? Names{"dx", "dweight?", "dbias?"} : Names{"dx", "dweight?"},
             .attributes = norm.attributes,
             .infer = [norm](const OpCall& call) { return infer_norm_backward(norm, call); },
             .in_place = {0, 1},
             .flops = flops_for_each_element(norm.centred ? 13 : 9)});
}

std::vector<Type> infer_batch_norm_update(const OpCall& call) {
  for (int i = 0; i < call.arity(); ++i) {
    call.require_floating(i);
    call.require(call.shape(i) == call.shape(0), "all operands must have the same shape");
  }
  const Dim count = call.dim("count");
  if (count.is_constant() && count.constant() < 2) {
    call.reject(fmt::format("the batch has {} elements in each channel: a variance needs at least 2", count.text()));
  }
  return {call.input(0), call.input(1)};
}

// mean, variance, and weight and bias if given: all [channels], of one dtype.
void require_given_statistics(const OpCall& call, int first) {
  require_channels(call);
  require_parameters(call, {call.shape(0)[1]}, first);
}

std::vector<Type> infer_batch_norm_inference(const OpCall& call) {
  call.require_floating(0);
  require_given_statistics(call, 1);
  return {call.input(0)};
}

std::vector<Type> infer_inference_backward_affine(const OpCall& call) {
  call.require_floating(0);
  call.require_same(0, 1);
  require_given_statistics(call, 2);
  return {call.input(2), call.input(2)};
}

void differentiate_inference(Gradient& g) {
  if (g.wants(1) || g.wants(2)) throw ArgumentError("batch_norm_inference: the given statistics have no gradient");
  const Value dy = g.of_output();
  const bool weighted = g.arity() > 3;
  if (g.wants(0)) {
    std::vector<Value> reads = {dy, g.input(2)};
    if (weighted) reads.push_back(g.input(3));
    g.set(0, g.b.emit("batch_norm_inference_backward", reads, g.attributes()));
  }
  const bool biased = g.arity() > 4 && g.wants(4);
  if (!biased && !(weighted && g.wants(3))) return;
  g.set(3, g.b.emit("batch_norm_inference_backward_affine", std::vector{dy, g.input(0), g.input(1), g.input(2)},
                    g.attributes()));
  if (biased) g.set(4, g.b.optional_output(g.b.program().ops.size() - 1, 1));
}

void add_batch_norm_forms(OpTable& table) {
  table.add({.name = "batch_norm_update",
             .inputs = {"running_mean", "running_variance", "mean", "variance"},
             .outputs = {"new_mean", "new_variance"},
             .attributes = {{"momentum", AttributeKind::real, {}}, {"count", AttributeKind::dim, {}}},
             .infer = infer_batch_norm_update,
             .overwrites = {{.output = 0, .input = 0}, {.output = 1, .input = 1}},
             .flops = flops_for_each_element(7),
             .traits = {.batch_statistics = true}});
  table.add({.name = "batch_norm_inference",
             .inputs = {"x", "mean", "variance", "weight?", "bias?"},
             .attributes = {eps()},
             .infer = infer_batch_norm_inference,
             .gradient = differentiate_inference,
             .in_place = {0},
             .flops = flops_for_each_element(4)});
  table.add({.name = "batch_norm_inference_backward",
             .inputs = {"dy", "variance", "weight?"},
             .outputs = {"dx"},
             .attributes = {eps()},
             .infer = infer_batch_norm_inference,
             .in_place = {0},
             .flops = flops_for_each_element(2)});
  table.add({.name = "batch_norm_inference_backward_affine",
             .inputs = {"dy", "x", "mean", "variance"},
             .outputs = {"dweight", "dbias?"},
             .attributes = {eps()},
             .infer = infer_inference_backward_affine,
             .flops = flops_for_each_element(5)});
}

// `operands` and those of weight and bias that are given.
std::vector<Value> with_parameters(std::vector<Value> operands, Value weight, Value bias) {
  if (bias && !weight) throw ArgumentError("a normalisation with a bias needs a weight");
  if (weight) operands.push_back(weight);
  if (bias) operands.push_back(bias);
  return operands;
}

std::vector<NamedAttribute> named(const LayerNormOptions& options) {
  return {{"axis", options.axis}, {"eps", options.eps}};
}

std::vector<NamedAttribute> named_eps(double eps) { return {{"eps", eps}}; }

void update(Builder& b, size_t norm, const RunningStatistics& running) {
  const Value mean = b.optional_output(norm, 1);
  const Value variance = b.optional_output(norm, 3);
  const Dims x = b.shape(b.program().ops[norm].inputs[0]);
  Dim count = x[0];
  for (int axis = 2; axis < x.rank(); ++axis) count = count * x[axis];
  const Phase phase = b.phase();
  b.set_phase(Phase::update);
  b.emit("batch_norm_update", {running.mean, running.variance, mean, variance},
         {{"momentum", running.momentum}, {"count", count}});
  b.set_phase(phase);
}

}  // namespace

Value layer_norm(Builder& b, Value x, Value weight, Value bias, const LayerNormOptions& options) {
  return b.emit("layer_norm", with_parameters({x}, weight, bias), named(options));
}

Value rms_norm(Builder& b, Value x, Value weight, const LayerNormOptions& options) {
  return b.emit("rms_norm", with_parameters({x}, weight, {}), named(options));
}

Value group_norm(Builder& b, Value x, Dim groups, Value weight, Value bias, double eps) {
  const std::vector<NamedAttribute> attributes = {{"groups", groups}, {"eps", eps}};
  return b.emit("group_norm", with_parameters({x}, weight, bias), attributes);
}

Value instance_norm(Builder& b, Value x, Value weight, Value bias, double eps) {
  const Dims shape = b.shape(x);
  return group_norm(b, x, shape.rank() < 2 ? Dim(1) : shape[1], weight, bias, eps);
}

Value batch_norm(Builder& b, Value x, Value weight, Value bias, double eps) {
  return b.emit("batch_norm", with_parameters({x}, weight, bias), named_eps(eps));
}

Value batch_norm(Builder& b, Value x, Value weight, Value bias, const RunningStatistics& running, double eps) {
  const Value y = batch_norm(b, x, weight, bias, eps);
  update(b, b.program().ops.size() - 1, running);
  return y;
}

Value batch_norm_inference(Builder& b, Value x, Value weight, Value bias, Value mean, Value variance, double eps) {
  return b.emit("batch_norm_inference", with_parameters({x, mean, variance}, weight, bias), named_eps(eps));
}

void register_norm(OpTable& table) {
  add_pair(table, {"layer_norm", true, layer_shapes, {axis(), eps()}});
  add_pair(table, {"rms_norm", false, layer_shapes, {axis(), eps()}});
  add_pair(table, {"group_norm", true, group_shapes, {{"groups", AttributeKind::dim, {}}, eps()}});
  add_pair(table, {"batch_norm", true, batch_shapes, {eps()}, {"variance?"}});
  add_batch_norm_forms(table);
}

}  // namespace plimsoll::program
