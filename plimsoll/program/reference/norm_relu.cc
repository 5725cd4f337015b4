#include "plimsoll/program/evaluate.h"

namespace plimsoll::program {
namespace {

void run_norm(Run<double>& norm) { norm.call.def.reference_f64(norm); }
void run_norm(Run<float>& norm) { norm.call.def.reference_f32(norm); }

bool bit_of(const std::vector<int64_t>& mask, size_t i) { return (mask[i / 8] >> (i % 8) & 1) != 0; }

template <class T>
void forward(Run<T>& run) {
  const OpCall& call = run.call;
  const OpCall norm{op_table().get("batch_norm"), call.inputs.first(3), call.attributes, call.outputs.first(4),
                    call.label};
  Run<T> inner{norm, run.inputs.first(3), run.outputs.first(4), {true, run.wants(1), run.wants(2), run.wants(3)}};
  run_norm(inner);
  std::vector<T>& y = run.out().reals;
  for (size_t i = 0; i < y.size(); ++i) {
    if (run.arity() > 3) y[i] += run.reals(3)[i];
    if (y[i] <= 0) y[i] = 0;
    if (run.wants(4) && y[i] > 0) run.out(4).ints[i / 8] |= 1 << (i % 8);
  }
}

template <class T>
void backward(Run<T>& run) {
  const OpCall& call = run.call;
  Array<T> slope = run.in(0);
  for (size_t i = 0; i < slope.reals.size(); ++i) {
    if (!bit_of(run.ints(1), i)) slope.reals[i] = 0;
  }
  const std::vector<const Array<T>*> operands = {&slope, &run.in(2), &run.in(3), &run.in(4), &run.in(5)};
  std::vector<Type> types = {call.inputs[0]};
  types.insert(types.end(), call.inputs.begin() + 2, call.inputs.end());
  const OpCall norm{op_table().get("batch_norm_backward"), types, call.attributes, call.outputs.first(3), call.label};
  Run<T> inner{norm, operands, run.outputs.first(3), {true, run.wants(1), run.wants(2)}};
  run_norm(inner);
  if (run.wants(3)) run.out(3).reals = slope.reals;
}

}  // namespace

void register_norm_relu_reference(OpTable& table) {
  table.reference("batch_norm_relu", [](auto& run) { forward(run); });
  table.reference("batch_norm_relu_backward", [](auto& run) { backward(run); });
}

}  // namespace plimsoll::program
