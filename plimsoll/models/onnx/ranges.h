// What nodes say of shapes: the same for nodes that are folded and for those that become ops.
#pragma once

#include <optional>
#include <vector>

#include "plimsoll/models/onnx/node.h"

namespace plimsoll::models::onnx_import {

// The shape that Reshape, Squeeze and Unsqueeze give to a tensor of these dims.
Dims reshaped(const NodeCall& call, const Dims& from);
Dims squeezed(const NodeCall& call, const Dims& from);
Dims unsqueezed(const NodeCall& call, const Dims& from);
// With one -1 in `to`: what is left.
Dims filled_in(const NodeCall& call, const Dims& from, Dims to);
std::vector<int64_t> permutation(const NodeCall& call, int rank);

struct SliceRange {
  int axis = 0;
  Dim start = 0;
  Dim end = 0;
  int64_t step = 1;
};
std::vector<SliceRange> slice_ranges(const NodeCall& call, int rank);
// The places that a range names in a dimension of this size; nothing when they depend on symbols or are too many.
std::optional<std::vector<int64_t>> places_of(const SliceRange& range, int64_t size);

}  // namespace plimsoll::models::onnx_import
