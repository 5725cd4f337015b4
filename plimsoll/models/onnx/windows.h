// Strides, pads and dilations as convolutions and pools of ONNX have them.
#pragma once

#include "plimsoll/models/onnx/node.h"

namespace plimsoll::models::onnx_import {

struct Windows {
  Dims kernel, stride, dilation;
  Dims padding;  // those before all dimensions first
};

// `kernel` where the node does not say. InputError for lists that do not match.
Windows windows_of(const NodeCall& call, const Dims& kernel);

Dims dims_from(const std::vector<int64_t>& numbers);

}  // namespace plimsoll::models::onnx_import
