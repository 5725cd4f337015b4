// Values of a model's parameters while it is compressed, and those with the least values taken away: single weights,
// which become zero, or whole channels.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "plimsoll/base/shape.h"
#include "plimsoll/program/program.h"

namespace plimsoll::train {

struct Tensor {
  std::string name;
  Shape shape;
  std::vector<float> values;
};
using Tensors = std::vector<Tensor>;

Tensor& tensor_of(Tensors& tensors, std::string_view name);  // which must be there

// A layer's weights, a row for each result, and what they multiply.
struct LayerWeights {
  program::Value weights;
  program::Value input;  // nothing: rows are gathered
};
// Of an inference; those whose weights are parameters.
std::vector<LayerWeights> layers_of(const program::Program& inference);

struct PrunedChannels {
  int64_t all = 0;  // that could go
  int64_t pruned = 0;
};

// Prunes a share of each layer's weights, or of its channels. UnsupportedError for a model none of whose channels can
// go.
PrunedChannels prune(Tensors& tensors, const program::Program& inference, double share, bool structured);

}  // namespace plimsoll::train
