// First values of parameters and state, in place.
#pragma once

#include "plimsoll/models/init.h"
#include "plimsoll/program/passes/quantize.h"
#include "plimsoll/run/executor.h"

namespace plimsoll::train {

// One value of f32, f16 or bf16. Each `stream` (a parameter's place in its model) has numbers of its own under one
// seed.
void start_value(run::Executor& executor, program::Value value, const models::Init& init, uint64_t seed,
                 uint64_t stream);

// The same of a shard of it, which these elements of the whole are; what fills it up is zero.
void start_shard(run::Executor& executor, program::Value value, const device::Shard& own, const models::Init& init,
                 uint64_t seed, uint64_t stream);

// `inits` of the parameters and `state_inits` of the first of the state, one after the other; the rest of the state
// starts as the arena's pages were, at zero. Parameters in f16, bf16 or i8 are rounded. Of parameters that are spread
// over ranks (program/spread_parameters.h) each rank has its shard, as the communicator of the run says.
void start_values(run::Executor& executor, const std::vector<models::Init>& inits,
                  const std::vector<models::Init>& state_inits, uint64_t seed,
                  const std::vector<program::QuantizedParameter>& quantized = {});

}  // namespace plimsoll::train
