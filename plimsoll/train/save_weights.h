// The values of a model's parameters as a file.
#pragma once

#include <string>

#include "plimsoll/models/zoo/zoo.h"
#include "plimsoll/run/executor.h"

namespace plimsoll::train {

// Parameters, and what the model keeps beside them, under the names and in the layouts that PyTorch has for `info`
// (models/weights/weights.h), as safetensors of f32. Holds one tensor at a time.
void save_weights(const models::ModelInfo& info, run::Executor& executor, const std::string& path);

}  // namespace plimsoll::train
