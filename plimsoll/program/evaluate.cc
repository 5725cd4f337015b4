#include "plimsoll/program/evaluate.h"

#include <fmt/format.h>

#include "plimsoll/base/error.h"
#include "plimsoll/program/verify.h"

namespace plimsoll::program {
namespace {

const auto& reference_of(const OpDef& def, double /*type*/) { return def.reference_f64; }
const auto& reference_of(const OpDef& def, float /*type*/) { return def.reference_f32; }

template <class T>
const Array<T>& given_array(const ValueInfo& value, const Arrays<T>& given) {
  const auto found = given.find(value.name);
  if (found == given.end()) throw ArgumentError(fmt::format("no array is given for %{}", value.name));
  const Array<T>& array = found->second;
  if (TensorSpec{array.dtype, array.shape} == value.type.spec()) return array;
  throw ArgumentError(fmt::format("the array given for %{} is {}, expected {}", value.name,
                                  TensorSpec{array.dtype, array.shape}.text(), value.type.text()));
}

template <class T>
void run_op(const Program& program, const Op& op, std::vector<Array<T>>& values) {
  const auto& reference = reference_of(*op.def, T{});
  if (!reference) throw ArgumentError(fmt::format("op {} has no reference evaluation", op.def->name));
  const OwnedOpCall call(program, op);
  std::vector<const Array<T>*> inputs;
  std::vector<Array<T>> outputs;
  std::vector<bool> made;
  for (const Value input : op.inputs) inputs.push_back(&values[static_cast<size_t>(input.index)]);
  for (const Value output : op.outputs) {
    made.push_back(bool(output));
    outputs.push_back(output ? Array<T>(program[output].type.spec()) : Array<T>());
  }
  Run<T> run{*call, inputs, outputs, made};
  reference(run);
  for (size_t k = 0; k < outputs.size(); ++k) {
    if (op.outputs[k]) values[static_cast<size_t>(op.outputs[k].index)] = std::move(outputs[k]);
  }
}

// For each storage the value that wrote it last.
std::vector<Value> last_writers(const Program& program) {
  std::vector<Value> last(program.values.size());
  for (size_t i = 0; i < last.size(); ++i) last[i] = {static_cast<int32_t>(i)};
  for (const Op& op : program.ops) {
    for (const Overwrite& overwrite : op.def->overwrites) {
      const Value output = op.outputs[static_cast<size_t>(overwrite.output)];
      if (output) last[static_cast<size_t>(program[output].storage.index)] = output;
    }
  }
  return last;
}

}  // namespace

template <class T>
Array<T>::Array(const TensorSpec& spec) : dtype(spec.dtype), shape(spec.shape) {
  const auto count = static_cast<size_t>(shape.elements());
  if (is_floating(dtype)) {
    reals.resize(count);
  } else {
    ints.resize(count);
  }
}

template <class T>
Evaluation<T> evaluate(const Program& program, const Arrays<T>& given) {
  verify_bound(program);
  Evaluation<T> result;
  std::vector<Array<T>>& values = result.values;
  values.resize(program.values.size());
  for (const auto* sources : {&program.inputs, &program.parameters, &program.state}) {
    for (const Value value : *sources) values[static_cast<size_t>(value.index)] = given_array(program[value], given);
  }
  for (const Op& op : program.ops) run_op(program, op, values);
  for (const Value value : program.outputs) {
    result.outputs[program[value].name] = values[static_cast<size_t>(value.index)];
  }
  const std::vector<Value> last = last_writers(program);
  for (const auto* sources : {&program.parameters, &program.state}) {
    for (const Value value : *sources) {
      result.after[program[value].name] = values[static_cast<size_t>(last[static_cast<size_t>(value.index)].index)];
    }
  }
  return result;
}

template struct Array<double>;
template struct Array<float>;
template Evaluation<double> evaluate(const Program&, const Arrays<double>&);
template Evaluation<float> evaluate(const Program&, const Arrays<float>&);

}  // namespace plimsoll::program
