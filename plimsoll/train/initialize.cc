#include "plimsoll/train/initialize.h"

#include "plimsoll/run/floats.h"

namespace plimsoll::train {
namespace {

void start_value(run::Executor& executor, program::Value value, const models::Init& init,
                 const std::vector<program::QuantizedParameter>& quantized, uint64_t seed, uint64_t stream) {
  const DType dtype = executor.program()[value].type.dtype;
  if (dtype == DType::f32) return models::draw(init, executor.data<float>(value), seed, stream);
  for (const program::QuantizedParameter& parameter : quantized) {
    if (parameter.weights != value) continue;
    return models::draw(init, executor.data<int8_t>(value), executor.data<float>(parameter.scales), seed, stream);
  }
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
