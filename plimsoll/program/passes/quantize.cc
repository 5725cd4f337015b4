#include "plimsoll/program/passes/quantize.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "plimsoll/program/ops/quantize.h"
#include "plimsoll/program/passes/facts.h"
#include "plimsoll/program/quantization.h"

namespace plimsoll::program {
namespace {

// What the op becomes, where it has weights and sums enough products.
std::optional<QuantizedForm> form_of(const Program& program, const Op& op, const QuantizeOptions& options) {
  if (!op.def->traits.quantized) return std::nullopt;
  auto form = op.def->traits.quantized(*OwnedOpCall(program, op));
  if (!form || form->gathers) return form;
  const Dims& w = program[op.inputs[static_cast<size_t>(form->weights)]].type.shape;
  const Dim products = Dims(std::span(w.begin() + 1, w.end())).elements();
  const bool fits = products.is_constant() && products.constant() >= options.least_products &&
                    products.constant() <= form->most_products;
  return fits ? form : std::nullopt;
}

// Whether ops that read the storage of a parameter read it as weights, and the caller does not at all. By value.
std::vector<bool> only_weights(const Program& program, const QuantizeOptions& options) {
  std::vector<bool> only(program.values.size(), true);
  const auto spoil = [&](Value value) { only[static_cast<size_t>(program[value].storage.index)] = false; };
  for (size_t i = 0; i < program.values.size(); ++i) {
    const Value value{static_cast<int32_t>(i)};
    if (program[value].storage != value) spoil(value);
  }
  for (const Value output : program.outputs) spoil(output);
  for (const Op& op : program.ops) {
    const auto form = form_of(program, op, options);
    for (size_t i = 0; i < op.inputs.size(); ++i) {
      if (!form || i != static_cast<size_t>(form->weights)) spoil(op.inputs[i]);
    }
  }
  return only;
}

// Values without negative elements, as far as ops tell.
std::vector<bool> never_negative(const Program& program) {
  std::vector<bool> known(program.values.size(), false);
  const auto is_known = [&](Value value) { return known[static_cast<size_t>(value.index)]; };
  for (const Op& op : program.ops) {
    if (op.outputs.empty()) continue;
    const Sign sign = op.def->sign(*OwnedOpCall(program, op));
    const bool from_operands = sign == Sign::kept && std::all_of(op.inputs.begin(), op.inputs.end(), is_known);
    if (from_operands || sign == Sign::non_negative) known[static_cast<size_t>(op.outputs[0].index)] = true;
  }
  return known;
}

class Quantizer {
 public:
  Quantizer(Program program, const QuantizeOptions& options)
      : options_(options),
        given_(program),
        only_weights_(only_weights(given_, options)),
        never_negative_(never_negative(given_)),
        b_(std::move(program)) {
    const Facts facts(given_);
    for (const Value parameter : given_.parameters) {
      if (facts.readers(parameter) > 0 && can_change(parameter)) add_scales(parameter);
    }
  }

  QuantizedProgram run() && {
    std::vector<Op> ops = given_.ops;
    for (size_t place = 0; place < ops.size(); ++place) change(ops[place], place);
    Program program = std::move(b_).finish();
    program.ops = merge(std::move(ops), std::span(program.ops).subspan(given_.ops.size()));
    QuantizedProgram result{std::move(program), {}};
    for (const Value parameter : given_.parameters) {
      const auto found = scales_.find(parameter.index);
      if (found == scales_.end()) continue;
      result.program[parameter].type.dtype = DType::i8;
      result.parameters.push_back({parameter, found->second});
    }
    return result;
  }

 private:
  bool can_change(Value parameter) const {
    const Type& type = given_[parameter].type;
    return type.dtype == DType::f32 && type.shape.is_constant() &&
           only_weights_[static_cast<size_t>(parameter.index)] && type.spec().bytes() >= options_.least_bytes;
  }

  void add_scales(Value parameter) {
    const ValueInfo& info = given_[parameter];
    const Type type{DType::f32, {info.type.shape[0]}};
    scales_[parameter.index] = b_.state(info.name + ".scale", type, Category::parameter);
  }

  void change(Op& op, size_t place) {
    const auto form = form_of(given_, op, options_);
    if (!form) return;
    const Value w = op.inputs[static_cast<size_t>(form->weights)];
    const auto found = scales_.find(w.index);
    if (found == scales_.end()) return;
    op.def = &op_table().get(form->op);
    if (!form->image) op.attributes.clear();
    if (form->gathers) return op.inputs.push_back(found->second);
    const Quantized x = bytes_of(op.inputs[0], form->image, place, op.phase);
    op.inputs[0] = x.bytes;
    op.inputs.insert(op.inputs.begin() + 2, {x.scale, found->second});
  }

  // Of x before op `place`, or as an op before that wanted it.
  Quantized bytes_of(Value x, bool image, size_t place, Phase phase) {
    const auto [known, is_new] = bytes_.try_emplace({x.index, image});
    if (!is_new) return known->second;
    b_.set_phase(phase);
    const DType dtype = never_negative_[static_cast<size_t>(x.index)] ? DType::u8 : DType::i8;
    known->second = image ? quantize(b_, x, dtype) : quantize_rows(b_, x, dtype);
    b_.rename(known->second.bytes, given_[x].name + ".bytes");
    b_.rename(known->second.scale, given_[x].name + ".scale");
    places_.push_back(place);
    return known->second;
  }

  // The ops that were added, each before the op that wanted it first.
  std::vector<Op> merge(std::vector<Op> ops, std::span<const Op> added) const {
    std::vector<Op> all;
    size_t next = 0;
    for (size_t place = 0; place < ops.size(); ++place) {
      for (; next < added.size() && places_[next] == place; ++next) all.push_back(added[next]);
      all.push_back(std::move(ops[place]));
    }
    return all;
  }

  QuantizeOptions options_;
  Program given_;
  std::vector<bool> only_weights_;
  std::vector<bool> never_negative_;
  Builder b_;
  std::map<int32_t, Value> scales_;                      // of parameters
  std::map<std::pair<int32_t, bool>, Quantized> bytes_;  // of what they multiply, as images or rows
  std::vector<size_t> places_;                           // of ops that added ones stand before
};

}  // namespace

QuantizedProgram quantize_weights(Program program, const QuantizeOptions& options) {
  return Quantizer(std::move(program), options).run();
}

}  // namespace plimsoll::program
