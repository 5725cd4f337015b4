// A model as an ONNX file: its inference, bound to sizes, with the values that its parameters start with.
#pragma once

#include <cstdint>
#include <string>

#include "plimsoll/models/zoo/zoo.h"

namespace plimsoll::models {

struct ExportOptions {
  program::Bindings sizes = {};  // in place of the model's usual ones
  uint64_t seed = 1;             // of values that are drawn
};

// Opset 17, f32. The bytes that were written. UnsupportedError that names an op that has no form in ONNX here;
// SystemError when it cannot be written.
int64_t export_onnx(const ModelInfo& info, const std::string& path, const ExportOptions& options = {});

}  // namespace plimsoll::models
