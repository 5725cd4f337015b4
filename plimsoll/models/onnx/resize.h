// Resize, one dimension at a time: where each new element comes from. All modes of ONNX are sums of old elements with
// weights that depend on the sizes alone.
#pragma once

#include <vector>

#include "plimsoll/models/onnx/node.h"

namespace plimsoll::models::onnx_import {

struct ResizeLine {
  int axis = 0;
  int64_t from = 0, to = 0;
  std::vector<int64_t> places = {};  // nearest: of the old elements
  std::vector<double> weights = {};  // else [from, to]

  bool is_same() const;
};

std::vector<ResizeLine> resize_lines(const NodeCall& call);

}  // namespace plimsoll::models::onnx_import
