#include "plimsoll/train/initialize.h"

#include <algorithm>

#include "plimsoll/base/error.h"
#include "plimsoll/kernels/collective.h"
#include "plimsoll/program/spread_parameters.h"
#include "plimsoll/run/floats.h"

namespace plimsoll::train {
namespace {

using program::QuantizedParameter;

// Given ones alone: there is nothing to draw of truth.
void start_boolean(std::span<uint8_t> into, const models::Init& init) {
  constexpr size_t kBlock = 4096;
  std::vector<int64_t> block;
  for (size_t first = 0; first < into.size(); first += kBlock) {
    block.resize(std::min(kBlock, into.size() - first));
    init.values->read(block, first);
    for (size_t i = 0; i < block.size(); ++i) into[first + i] = block[i] != 0 ? 1 : 0;
  }
}

// In f16 or bf16. A block in f32 at a time, whatever the size of the whole.
void start_rounded(std::span<std::byte> into, DType dtype, const models::Init& init, uint64_t seed, uint64_t stream,
                   size_t before = 0) {
  constexpr size_t kBlock = 1 << 18;
  const auto element = static_cast<size_t>(element_bytes(dtype));
  const size_t count = into.size() / element;
  std::vector<float> block;
  for (size_t first = 0; first < count; first += kBlock) {
    block.resize(std::min(kBlock, count - first));
    models::draw(init, block, seed, stream, before + first);
    run::write_rounded(dtype, block, into.subspan(first * element, block.size() * element));
  }
}

void start_quantized(run::Executor& executor, const QuantizedParameter& parameter, const models::Init& init,
                     uint64_t seed, uint64_t stream) {
  executor.fill<int8_t>(parameter.weights, [&](std::span<int8_t> into) {
    executor.fill<float>(parameter.scales,
                         [&](std::span<float> scales) { models::draw(init, into, scales, seed, stream); });
  });
}

}  // namespace

void start_value(run::Executor& executor, program::Value value, const models::Init& init, uint64_t seed,
                 uint64_t stream) {
  const program::Type& type = executor.program()[value].type;
  if (type.dtype == DType::f32) {
    return executor.fill<float>(value, [&](std::span<float> into) { models::draw(init, into, seed, stream); });
  }
  if (type.dtype == DType::i64) {
    return executor.fill<int64_t>(value, [&](std::span<int64_t> into) { init.values->read(into, 0); });
  }
  if (type.dtype == DType::boolean) {
    return executor.fill<uint8_t>(value, [&](std::span<uint8_t> into) { start_boolean(into, init); });
  }
  executor.fill_bytes(value, [&](std::span<std::byte> into) { start_rounded(into, type.dtype, init, seed, stream); });
}

void start_shard(run::Executor& executor, program::Value value, const device::Shard& own, const models::Init& init,
                 uint64_t seed, uint64_t stream) {
  const DType dtype = executor.program()[value].type.dtype;
  executor.fill_bytes(value, [&](std::span<std::byte> into) {
    const auto there = into.first(static_cast<size_t>(own.size() * element_bytes(dtype)));
    const auto before = static_cast<uint64_t>(own.first);
    std::fill(into.begin(), into.end(), std::byte{});
    if (dtype != DType::f32) return start_rounded(there, dtype, init, seed, stream, before);
    const std::span floats(reinterpret_cast<float*>(there.data()), static_cast<size_t>(own.size()));
    models::draw(init, floats, seed, stream, before);
  });
}

void start_values(run::Executor& executor, const std::vector<models::Init>& inits,
                  const std::vector<models::Init>& state_inits, uint64_t seed,
                  const std::vector<program::QuantizedParameter>& quantized) {
  const program::Program& program = executor.program();
  uint64_t stream = 0;
  const auto start_one = [&](program::Value value, const models::Init& init) {
    const auto is_of = [&](const QuantizedParameter& parameter) { return parameter.weights == value; };
    const auto found = std::find_if(quantized.begin(), quantized.end(), is_of);
    if (found != quantized.end()) return start_quantized(executor, *found, init, seed, stream++);
    if (const auto whole = program::whole_shape(program, value)) {
      const auto ranks = kernels::communicator();
      if (!ranks) throw ArgumentError("the program holds shards of parameters, and this run is alone");
      const device::Shard own = device::shard_of(whole->elements().constant(), ranks->ranks(), ranks->rank());
      return start_shard(executor, value, own, init, seed, stream++);
    }
    start_value(executor, value, init, seed, stream++);
  };
  const auto start = [&](const std::vector<program::Value>& values, const std::vector<models::Init>& how) {
    for (size_t i = 0; i < how.size(); ++i) start_one(values[i], how[i]);
  };
  start(program.parameters, inits);
  start(program.state, state_inits);
}

}  // namespace plimsoll::train
