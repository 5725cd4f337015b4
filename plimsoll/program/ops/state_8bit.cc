#include "plimsoll/program/ops/state_8bit.h"

#include <fmt/format.h>

#include "plimsoll/program/ops/state_code.h"

namespace plimsoll::program {
namespace {

// Operands i and i + 1 are a state of w in codes.
void require_quantized(const OpCall& call, int i) {
  if (call.input(i) != Type{DType::u8, call.shape(0)}) {
    call.reject(fmt::format("{} must be u8 of the shape of w", call.def.input_name(i)));
  }
  const Type scales{DType::f32, {scales_of(call.shape(0).elements())}};
  if (call.input(i + 1) != scales) {
    call.reject(fmt::format("{} must be {}", call.def.input_name(i + 1), scales.text()));
  }
}

// Operands are w, dw, codes and scales of each state, the step counter, the rate and perhaps the scale.
std::vector<Type> infer_quantized(const OpCall& call, int states) {
  call.require_floating(0);
  call.require_same(0, 1);
  for (int k = 0; k < states; ++k) require_quantized(call, 2 + 2 * k);
  const int step = 2 + 2 * states;
  call.require(is_integer(call.input(step).dtype) && call.shape(step).empty(), "step must be one integer");
  for (int i = step + 1; i < call.arity(); ++i) {
    call.require_floating(i);
    call.require_rank(i, 0);
  }
  std::vector<Type> outputs = {call.input(0)};
  for (int i = 2; i < step; ++i) outputs.push_back(call.input(i));
  return outputs;
}

void add_quantized(OpTable& table, const OpDef& plain, const std::vector<std::string>& states) {
  constexpr int kFlopsOfCodes = 20;  // of an element, to read and write one
  OpDef def;
  def.name = plain.name + "_8bit";
  def.inputs = {"w", "dw"};
  def.outputs = {"w_new"};
  def.attributes = plain.attributes;
  def.overwrites = {{.output = 0, .input = 0}};
  for (const std::string& state : states) {
    for (const std::string& name : {state, state + "_scales"}) {
      def.overwrites.push_back(
          {.output = static_cast<int>(def.outputs.size()), .input = static_cast<int>(def.inputs.size())});
      def.inputs.push_back(name);
      def.outputs.push_back(name + "_new");
    }
  }
  def.inputs.insert(def.inputs.end(), {"step", "rate", "scale?"});
  const int count = static_cast<int>(states.size());
  def.infer = [count](const OpCall& call) { return infer_quantized(call, count); };
  def.flops = [flops = plain.flops, count](const OpCall& call) {
    return flops(call) + Dim(kFlopsOfCodes * count) * call.shape(0).elements();
  };
  table.add(std::move(def));
}

Value emit_quantized(Builder& b, std::string_view op, std::vector<Value> operands, Value scale,
                     const std::vector<NamedAttribute>& attributes) {
  if (scale) operands.push_back(scale);
  return b.emit(op, operands, attributes);
}

Value emit_adam(Builder& b, std::string_view op, Value w, Value dw, const Moments8Bit& moments, Value step, Value rate,
                const AdamOptions& options) {
  return emit_quantized(
      b, op, {w, dw, moments.mean.codes, moments.mean.scales, moments.square.codes, moments.square.scales, step, rate},
      options.scale,
      {{"beta1", options.beta1},
       {"beta2", options.beta2},
       {"eps", options.eps},
       {"weight_decay", options.weight_decay}});
}

}  // namespace

Dim scales_of(Dim elements) { return ceil_div(elements, kStateBlock); }

Value momentum_8bit(Builder& b, Value w, Value dw, State8Bit velocity, Value step, Value rate,
                    MomentumOptions options) {
  return emit_quantized(
      b, "momentum_8bit", {w, dw, velocity.codes, velocity.scales, step, rate}, options.scale,
      {{"momentum", options.momentum}, {"nesterov", options.nesterov}, {"weight_decay", options.weight_decay}});
}

Value adam_8bit(Builder& b, Value w, Value dw, Moments8Bit moments, Value step, Value rate, AdamOptions options) {
  return emit_adam(b, "adam_8bit", w, dw, moments, step, rate, options);
}

Value adamw_8bit(Builder& b, Value w, Value dw, Moments8Bit moments, Value step, Value rate, AdamOptions options) {
  return emit_adam(b, "adamw_8bit", w, dw, moments, step, rate, options);
}

void register_state_8bit(OpTable& table) {
  add_quantized(table, table.get("momentum"), {"velocity"});
  for (const char* name : {"adam", "adamw"}) add_quantized(table, table.get(name), {"mean", "square"});
}

}  // namespace plimsoll::program
