#include "plimsoll/program/ops/optimizer.h"

#include <fmt/format.h>

#include <algorithm>

namespace plimsoll::program {
namespace {

void require_scalar(const OpCall& call, int i) {
  call.require_floating(i);
  call.require_rank(i, 0);
}

// Operand i is optimizer state: floating, of the shape of w.
void require_state(const OpCall& call, int i) {
  call.require_floating(i);
  if (call.shape(i) != call.shape(0)) {
    call.reject(fmt::format("{} must have the shape of w", call.def.input_name(i)));
  }
}

// Operands are w, dw, `state` values of w's shape, perhaps a step counter, the rate and perhaps the scale. Results are
// w and the state, in their storages.
std::vector<Type> infer_update(const OpCall& call, int states, bool counts) {
  call.require_floating(0);
  call.require_same(0, 1);
  const int first_scalar = 2 + states + (counts ? 1 : 0);
  for (int i = 2; i < 2 + states; ++i) require_state(call, i);
  if (counts) {
    const Type& step = call.input(first_scalar - 1);
    call.require(is_integer(step.dtype) && step.shape.empty(), "step must be one integer");
  }
  for (int i = first_scalar; i < call.arity(); ++i) require_scalar(call, i);
  std::vector<Type> outputs = {call.input(0)};
  for (int i = 2; i < 2 + states; ++i) outputs.push_back(call.input(i));
  return outputs;
}

struct Update {
  std::string name;
  std::vector<std::string> state = {};
  bool counts = false;  // reads the step counter
  std::vector<AttributeSpec> attributes = {};
  int flops_per_element = 2;
};

void add_update(OpTable& table, const Update& update) {
  OpDef def;
  def.name = update.name;
  def.inputs = {"w", "dw"};
  def.outputs = {"w_new"};
  def.attributes = update.attributes;
  def.overwrites = {{.output = 0, .input = 0}};
  for (const std::string& name : update.state) {
    def.overwrites.push_back(
        {.output = static_cast<int>(def.outputs.size()), .input = static_cast<int>(def.inputs.size())});
    def.inputs.push_back(name);
    def.outputs.push_back(name + "_new");
  }
  if (update.counts) def.inputs.push_back("step");
  def.inputs.insert(def.inputs.end(), {"rate", "scale?"});
  const int states = static_cast<int>(update.state.size());
  def.infer = [states, counts = update.counts](const OpCall& call) { return infer_update(call, states, counts); };
  def.flops = [each = update.flops_per_element](const OpCall& call) { return Dim(each) * call.shape(0).elements(); };
  table.add(std::move(def));
}

std::vector<Type> infer_next_step(const OpCall& call) {
  call.require(is_integer(call.input(0).dtype) && call.shape(0).empty(), "step must be one integer");
  return {call.input(0)};
}

std::vector<Type> infer_global_norm(const OpCall& call) {
  for (int i = 0; i < call.arity(); ++i) call.require_floating(i);
  const bool wide =
      std::any_of(call.inputs.begin(), call.inputs.end(), [](const Type& t) { return t.dtype == DType::f64; });
  return {{wide ? DType::f64 : DType::f32, {}}};
}

Dim global_norm_flops(const OpCall& call) {
  Dim elements = 0;
  for (const Type& gradient : call.inputs) elements = elements + gradient.shape.elements();
  return Dim(2) * elements;
}

std::vector<Type> infer_clip_scale(const OpCall& call) {
  require_scalar(call, 0);
  call.require(call.real("max_norm") > 0, "max_norm must be above 0");
  return {call.input(0)};
}

void require_scale_state(const OpCall& call) {
  call.require(call.input(0).dtype == DType::i64 && call.shape(0) == Dims{2}, "state must be i64[2]");
}

std::vector<Type> infer_loss_scale(const OpCall& call) {
  require_scale_state(call);
  return {{DType::f32, {}}};
}

std::vector<Type> infer_next_loss_scale(const OpCall& call) {
  require_scale_state(call);
  require_scalar(call, 1);
  return {call.input(0)};
}

std::vector<Type> infer_unscale(const OpCall& call) {
  require_scalar(call, 0);
  call.require_same(0, 1);
  return {call.input(0)};
}

Value emit_update(Builder& b, std::string_view op, std::vector<Value> operands, Value scale,
                  const std::vector<NamedAttribute>& attributes) {
  if (scale) operands.push_back(scale);
  return b.emit(op, operands, attributes);
}

Value emit_adam(Builder& b, std::string_view op, const std::vector<Value>& operands, const AdamOptions& options) {
  return emit_update(b, op, operands, options.scale,
                     {{"beta1", options.beta1},
                      {"beta2", options.beta2},
                      {"eps", options.eps},
                      {"weight_decay", options.weight_decay}});
}

}  // namespace

Value sgd(Builder& b, Value w, Value dw, Value rate, SgdOptions options) {
  return emit_update(b, "sgd", {w, dw, rate}, options.scale, {{"weight_decay", options.weight_decay}});
}

Value momentum(Builder& b, Value w, Value dw, Value velocity, Value rate, MomentumOptions options) {
  return emit_update(
      b, "momentum", {w, dw, velocity, rate}, options.scale,
      {{"momentum", options.momentum}, {"nesterov", options.nesterov}, {"weight_decay", options.weight_decay}});
}

Value adam(Builder& b, Value w, Value dw, Moments moments, Value step, Value rate, AdamOptions options) {
  return emit_adam(b, "adam", {w, dw, moments.mean, moments.square, step, rate}, options);
}

Value adamw(Builder& b, Value w, Value dw, Moments moments, Value step, Value rate, AdamOptions options) {
  return emit_adam(b, "adamw", {w, dw, moments.mean, moments.square, step, rate}, options);
}

Value lion(Builder& b, Value w, Value dw, Value mean, Value rate, LionOptions options) {
  return emit_update(b, "lion", {w, dw, mean, rate}, options.scale,
                     {{"beta1", options.beta1}, {"beta2", options.beta2}, {"weight_decay", options.weight_decay}});
}

Value next_step(Builder& b, Value step) { return b.emit("next_step", {step}); }
Value global_norm(Builder& b, std::span<const Value> gradients) { return b.emit("global_norm", gradients); }
Value clip_scale(Builder& b, Value norm, double max_norm) {
  return b.emit("clip_scale", {norm}, {{"max_norm", max_norm}});
}
Value loss_scale(Builder& b, Value state) { return b.emit("loss_scale", {state}); }
Value next_loss_scale(Builder& b, Value state, Value norm) { return b.emit("next_loss_scale", {state, norm}); }
Value unscale(Builder& b, Value scale, Value norm) { return b.emit("unscale", {scale, norm}); }

void register_optimizer(OpTable& table) {
  const auto real = [](const char* name, double fallback) {
    return AttributeSpec{name, AttributeKind::real, Attribute(fallback)};
  };
  const AttributeSpec decay = real("weight_decay", 0);
  add_update(table, {.name = "sgd", .attributes = {decay}});
  add_update(table, {.name = "momentum",
                     .state = {"velocity"},
                     .attributes = {real("momentum", 0.9), {"nesterov", AttributeKind::flag, Attribute(false)}, decay},
                     .flops_per_element = 4});
  add_update(table, {.name = "lion",
                     .state = {"mean"},
                     .attributes = {real("beta1", 0.9), real("beta2", 0.99), decay},
                     .flops_per_element = 8});
  for (const char* name : {"adam", "adamw"}) {
    add_update(table, {.name = name,
                       .state = {"mean", "square"},
                       .counts = true,
                       .attributes = {real("beta1", 0.9), real("beta2", 0.999), real("eps", 1e-8), decay},
                       .flops_per_element = 12});
  }
  table.add({.name = "next_step",
             .inputs = {"step"},
             .outputs = {"next"},
             .infer = infer_next_step,
             .overwrites = {{.output = 0, .input = 0}}});
  table.add({.name = "global_norm",
             .inputs = {"gradients..."},
             .outputs = {"norm"},
             .infer = infer_global_norm,
             .flops = global_norm_flops});
  table.add({.name = "loss_scale", .inputs = {"state"}, .outputs = {"scale"}, .infer = infer_loss_scale});
  table.add({.name = "next_loss_scale",
             .inputs = {"state", "norm"},
             .outputs = {"next"},
             .infer = infer_next_loss_scale,
             .overwrites = {{.output = 0, .input = 0}}});
  table.add({.name = "unscale", .inputs = {"scale", "norm"}, .outputs = {"factor"}, .infer = infer_unscale});
  table.add({.name = "clip_scale",
             .inputs = {"norm"},
             .outputs = {"scale"},
             .attributes = {{"max_norm", AttributeKind::real, {}}},
             .infer = infer_clip_scale,
             .in_place = {0}});
}

}  // namespace plimsoll::program
