// The built-in models by name.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "plimsoll/models/nn.h"

namespace plimsoll::models {

// `small` is the same model with few and narrow layers and small images, for tests that run it in plain C++.
enum class Size : uint8_t { full, small };

struct ModelInfo {
  std::string name;
  std::string description;
  std::function<Model(const NetOptions& options, Size size)> build;
  program::Bindings usual;       // sizes to take where none are asked for: {"batch", 32}
  program::Bindings most = {};   // limits of sizes: a table of positions has an end
  program::Bindings fixed = {};  // sizes that it was loaded with, which cannot be others
  // What is worth telling of it as it is built; empty: nothing.
  std::function<std::vector<std::string>(const NetOptions& options)> notes = {};
};

// A model of one's own, for whatever takes one of the zoo's. It is as it was built: building it in another dtype, or
// for inference where it was built for training, is an UnsupportedError. `usual` has a size for each symbol of its
// program.
ModelInfo own_model(std::string name, Model model, program::Bindings usual);

std::span<const ModelInfo> all_models();

// ArgumentError that names models with similar names.
const ModelInfo& find_model(std::string_view name);

// The usual sizes with these in their place. ArgumentError for a size that the model does not have, is below 1 or
// above its limit.
program::Bindings bindings(const ModelInfo& model, const program::Bindings& asked);

}  // namespace plimsoll::models
