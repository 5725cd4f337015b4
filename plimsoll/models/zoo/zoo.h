// The built-in models by name.
#pragma once

#include <span>
#include <string_view>

#include "plimsoll/models/nn.h"

namespace plimsoll::models {

// `small` is the same model with few and narrow layers and small images, for tests that run it in plain C++.
enum class Size : uint8_t { full, small };

struct ModelInfo {
  std::string_view name;
  std::string_view description;
  Model (*build)(const NetOptions& options, Size size);
  program::Bindings usual;      // sizes to take where none are asked for: {"batch", 32}
  program::Bindings most = {};  // limits of sizes: a table of positions has an end
};

std::span<const ModelInfo> all_models();

// ArgumentError that names models with similar names.
const ModelInfo& find_model(std::string_view name);

// The usual sizes with these in their place. ArgumentError for a size that the model does not have, is below 1 or
// above its limit.
program::Bindings bindings(const ModelInfo& model, const program::Bindings& asked);

}  // namespace plimsoll::models
