// DoesNotFit for a step that nothing makes fit.
#pragma once

#include "plimsoll/train/fit_model.h"

namespace plimsoll::train {

// Plans what would fit instead, and throws.
[[noreturn]] void refuse(const ModelForms& model, const std::string& spill_dir, const Budget& budget,
                         const NoFit& no_fit);

}  // namespace plimsoll::train
