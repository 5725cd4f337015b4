// Layer norms of nodes, for the families that have them.
#pragma once

#include "plimsoll/models/onnx/node.h"

namespace plimsoll::models::onnx_import {

// Over the dimensions from `axis` on, with weight and bias among the operands (-1: there is none); not centred: RMS.
Value layer_norm_of(NodeCall& call, Value x, int weight_at, int bias_at, int axis, double eps, bool centred);

}  // namespace plimsoll::models::onnx_import
