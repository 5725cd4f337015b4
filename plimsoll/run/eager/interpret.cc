#include "plimsoll/run/eager/interpret.h"

#include <fmt/format.h>

#include "plimsoll/base/error.h"
#include "plimsoll/program/verify.h"
#include "plimsoll/run/eager/frame.h"

namespace plimsoll::eager {
namespace {

using program::Program;
using program::Value;

const Tensor& tensor_for(const program::ValueInfo& value, const NamedTensors& given) {
  const auto found = given.find(value.name);
  if (found == given.end() || !found->second) throw ArgumentError(fmt::format("%{} is not given", value.name));
  const Tensor& tensor = found->second;
  if (tensor.spec() != value.type.spec() || !tensor.is_contiguous()) {
    throw ArgumentError(fmt::format("%{} is given as {}{}, expected {}", value.name, tensor.spec().text(),
                                    tensor.is_contiguous() ? "" : " that is not contiguous", value.type.text()));
  }
  return tensor;
}

}  // namespace

NamedTensors run(Context& context, const Program& program, const NamedTensors& given) {
  program::verify_bound(program);
  const std::vector<int32_t> last = last_reads(program, program.outputs);
  Frame frame(context.engine(), program, last, Frame::Placing::as_program);
  for (const auto* list : {&program.inputs, &program.parameters, &program.state}) {
    for (const Value value : *list) frame.set(value, tensor_for(program[value], given).state()->data);
  }
  frame.run(0, std::nullopt);
  NamedTensors outputs;
  for (const Value value : program.outputs) {
    outputs.emplace(program[value].name,
                    Tensor(context, std::make_shared<TensorState>(TensorState{.data = frame.get(value)})));
  }
  return outputs;
}

}  // namespace plimsoll::eager
