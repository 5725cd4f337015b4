#include "plimsoll/train/synthetic.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>

#include "plimsoll/base/error.h"
#include "plimsoll/program/op.h"
#include "plimsoll/program/random.h"

namespace plimsoll::train {
namespace {

using program::Op;
using program::Program;
using program::Value;

// What an op admits in operand `operand`, or nothing when it does not read indices there.
std::optional<int64_t> admitted(const Program& program, const Op& op, size_t operand) {
  const std::string_view name = op.def->name;
  const program::OpCall call(program, op);
  if (operand == 1 && name == "embedding") return call->shape(0)[0].constant();
  if (operand == 1 && name == "gather") return call->shape(0)[call->axis("axis")].constant();
  if (operand == 1 && name == "cross_entropy") return call->shape(0)[call->axis("axis")].constant();
  return std::nullopt;
}

// Even in [-1, 1).
float number(uint64_t seed, uint64_t stream, uint64_t index) {
  return static_cast<float>(program::random_bits(seed, stream, index)) / 2147483648.0F - 1;
}

void fill(run::Executor& executor, Value input, uint64_t seed) {
  const auto stream = static_cast<uint64_t>(input.index);
  const program::ValueInfo& info = executor.program()[input];
  if (info.type.dtype == DType::f32) {
    const auto data = executor.data<float>(input);
    for (size_t i = 0; i < data.size(); ++i) data[i] = number(seed, stream, i);
  } else if (info.type.dtype == DType::i64) {
    const auto range = static_cast<uint64_t>(index_range(executor.program(), input));
    const auto data = executor.data<int64_t>(input);
    for (size_t i = 0; i < data.size(); ++i) {
      data[i] = static_cast<int64_t>(program::random_bits(seed, stream, i) % range);
    }
  } else {
    throw UnsupportedError(
        fmt::format("no data can be made up for %{}: it is {}, expected f32 or i64", info.name, info.type.text()));
  }
}

}  // namespace

int64_t index_range(const Program& program, Value input) {
  int64_t range = INT64_MAX;
  for (const Op& op : program.ops) {
    for (size_t i = 0; i < op.inputs.size(); ++i) {
      if (program[op.inputs[i]].storage != input) continue;
      range = std::min(range, admitted(program, op, i).value_or(INT64_MAX));
    }
  }
  return range == INT64_MAX ? 2 : range;
}

void fill_inputs(run::Executor& executor, uint64_t seed) {
  for (const Value input : executor.program().inputs) fill(executor, input, seed);
}

}  // namespace plimsoll::train
