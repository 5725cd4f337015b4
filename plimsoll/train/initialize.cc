#include "plimsoll/train/initialize.h"

#include "plimsoll/run/floats.h"

namespace plimsoll::train {
namespace {

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

void start_value(run::Executor& executor, program::Value value, const models::Init& init,
                 const std::vector<program::QuantizedParameter>& quantized, uint64_t seed, uint64_t stream) {
  const DType dtype = executor.program()[value].type.dtype;
  if (dtype == DType::f32) return models::draw(init, executor.data<float>(value), seed, stream);
  for (const program::QuantizedParameter& parameter : quantized) {
    if (parameter.weights != value) continue;
    return models::draw(init, executor.data<int8_t>(value), executor.data<float>(parameter.scales), seed, stream);
  }
  if (dtype == DType::i64) return init.values->read(executor.data<int64_t>(value), 0);
  if (dtype == DType::boolean) return start_boolean(executor.data<uint8_t>(value), init);
  std::vector<float> floats(executor.bytes(value).size() / 2);
  models::draw(init, floats, seed, stream);
  run::write_floats(executor, value, floats);
}

}  // namespace

void start_values(run::Executor& executor, const std::vector<models::Init>& inits,
                  const std::vector<models::Init>& state_inits, uint64_t seed,
                  const std::vector<program::QuantizedParameter>& quantized) {
  const program::Program& program = executor.program();
  uint64_t stream = 0;
  const auto start = [&](const std::vector<program::Value>& values, const std::vector<models::Init>& how) {
    for (size_t i = 0; i < how.size(); ++i) start_value(executor, values[i], how[i], quantized, seed, stream++);
  };
  start(program.parameters, inits);
  start(program.state, state_inits);
}

}  // namespace plimsoll::train
