// How an imported graph ends: in training with a loss, in inference with its outputs.
#pragma once

#include <string>
#include <vector>

#include "plimsoll/models/onnx/importer.h"

namespace plimsoll::models::onnx_import {

// `loss` as OnnxOptions has it. ArgumentError for an output that there is not or a loss that it cannot have.
Model with_loss(Net&& net, Importer& importer, const std::string& loss, std::vector<std::string>& notes);
// All outputs, each in row-major order; `as_reals`: those of integers and truth, too.
Model with_outputs(Net&& net, Importer& importer, bool as_reals = true);

}  // namespace plimsoll::models::onnx_import
