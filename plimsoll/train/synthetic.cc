#include "plimsoll/train/synthetic.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>

#include "plimsoll/base/error.h"
#include "plimsoll/kernels/random_fill.h"
#include "plimsoll/kernels/tiling.h"
#include "plimsoll/program/op.h"
#include "plimsoll/program/random.h"
#include "plimsoll/run/floats.h"

namespace plimsoll::train {
namespace {

using program::Op;
using program::Program;
using program::Value;

// What an op admits in operand `operand`, or nothing when it does not read indices there.
std::optional<int64_t> admitted(const Program& program, const Op& op, size_t operand) {
  const auto& indices = op.def->traits.indices;
  if (!indices || static_cast<size_t>(indices->operand) != operand) return std::nullopt;
  const program::OwnedOpCall call(program, op);
  const int axis = indices->axis.empty() ? 0 : call->axis(indices->axis, indices->of);
  return call->shape(indices->of)[axis].constant();
}

// A stream of numbers for each input, by its name: it is the same in every form of the step.
uint64_t stream_of(std::string_view name) {
  uint64_t hash = 14695981039346656037U;
  for (const char c : name) hash = (hash ^ static_cast<unsigned char>(c)) * 1099511628211U;
  return hash;
}

template <class T>
std::span<T> as(std::span<std::byte> bytes) {
  return {reinterpret_cast<T*>(bytes.data()), bytes.size() / sizeof(T)};
}

// A sample of f32 at a time.
void fill_low_precision(std::span<std::byte> into, DType dtype, std::span<const uint32_t> keys, int threads) {
  const size_t bytes = into.size() / keys.size();
  std::vector<float> sample(bytes / 2);
  for (size_t i = 0; i < keys.size(); ++i) {
    kernels::random_fill(sample, keys.subspan(i, 1), threads);
    run::write_rounded(dtype, sample, into.subspan(i * bytes, bytes));
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

void SyntheticBatch::read(const Program& program, Value input, int64_t first, std::span<std::byte> into) const {
  const program::ValueInfo& info = program[input];
  const uint64_t stream = stream_of(info.name);
  std::vector<uint32_t> keys(info.type.shape.empty() ? 1 : static_cast<size_t>(info.type.shape[0].constant()));
  for (size_t i = 0; i < keys.size(); ++i) {
    keys[i] = program::random_bits(seed_, stream, static_cast<uint64_t>(first) + i);
  }
  if (info.type.dtype == DType::f32) {
    kernels::random_fill(as<float>(into), keys, threads_);
  } else if (kernels::is_low_precision(info.type.dtype)) {
    fill_low_precision(into, info.type.dtype, keys, threads_);
  } else if (info.type.dtype == DType::i64) {
    kernels::random_fill(as<int64_t>(into), keys, index_range(program, input), threads_);
  } else {
    throw UnsupportedError(fmt::format("no synthetic data for %{}: it is {}, expected f32, f16, bf16 or i64", info.name,
                                       info.type.text()));
  }
}

void fill_inputs(run::Executor& executor, uint64_t seed) {
  const SyntheticBatch batch(seed, executor.threads());
  for (const Value input : executor.program().inputs) {
    executor.fill_bytes(input, [&](std::span<std::byte> into) { batch.read(executor.program(), input, 0, into); });
  }
}

}  // namespace plimsoll::train
