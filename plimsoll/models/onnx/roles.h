// What the initializers of a graph are for, by the nodes that read them: whether they are trained, and how they start
// where a file does not have their values.
#pragma once

#include <string>
#include <unordered_map>

#include "plimsoll/base/shape.h"
#include "plimsoll/models/init.h"
#include "plimsoll/models/onnx/schema.h"

namespace plimsoll::models::onnx_import {

enum class Role : uint8_t {
  none,
  kernel,     // of a convolution: [out, in, ..]
  up_kernel,  // of a transposed one: [in, out, ..]
  rows,       // a matrix with a row for each output
  columns,    // a matrix with a column for each output
  table,      // of an embedding
  scale,      // of a normalisation
  shift,      // of it, or a bias
  slope,
  statistic,  // running mean
  variance,   // running variance: a statistic, too
  setting,    // scales and zero points of quantization, bounds, rates: not trained
};
using Roles = std::unordered_map<std::string, Role>;

Roles roles_of(const GraphProto& graph);

// Matrices and kernels as PyTorch draws them (fan_in), tables normal(0.02), scales and variances 1, the rest 0.
Init drawn_init(Role role, const std::string& name, const Shape& shape);

}  // namespace plimsoll::models::onnx_import
