// Gradients of what was recorded.
#pragma once

#include "plimsoll/run/eager/record.h"

namespace plimsoll::eager {

struct BackwardOptions {
  // Lets go of what the tape keeps as soon as it is read, so the peak is lower. When memory runs out nevertheless,
  // tensors and gradients are as before, but the tape is spent.
  bool let_go_early = false;
};

// Adds the gradient of sum(root * seed) to all leaves that it depends on, and lets go of the tape. When it fails
// nothing has changed (but see let_go_early).
void backward(Engine& engine, RecipeBook& recipes, const std::shared_ptr<TensorState>& root, Data seed,
              const BackwardOptions& options);

}  // namespace plimsoll::eager
