#include "plimsoll/train/initialize.h"

#include <algorithm>

#include "plimsoll/run/floats.h"

namespace plimsoll::train {
namespace {

using program::QuantizedParameter;

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
  std::vector<float> floats(static_cast<size_t>(type.shape.elements().constant()));
  models::draw(init, floats, seed, stream);
  run::write_floats(executor, value, floats);
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
    start_value(executor, value, init, seed, stream++);
  };
  const auto start = [&](const std::vector<program::Value>& values, const std::vector<models::Init>& how) {
    for (size_t i = 0; i < how.size(); ++i) start_one(values[i], how[i]);
  };
  start(program.parameters, inits);
  start(program.state, state_inits);
}

}  // namespace plimsoll::train
