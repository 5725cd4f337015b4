// Training steps of the zoo's small forms, for tests that run or plan them.
#pragma once

#include <string_view>

#include "plimsoll/models/step.h"

namespace plimsoll::plan {

inline models::Step small_step(std::string_view model, program::Optimizer optimizer, int64_t batch = 3) {
  const models::ModelInfo& info = models::find_model(model);
  models::StepOptions options = {.sizes = {{"batch", batch}}, .size = models::Size::small};
  if (info.usual.contains("sequence")) options.sizes["sequence"] = 5;
  options.train.optimizer = optimizer;
  return models::build_whole_step(info, options);
}

}  // namespace plimsoll::plan
