// Random numbers of a graph, as far as something is dropped by them. Exporters write what drops whole branches of
// samples (stochastic depth) as uniform numbers that are compared with the share that is kept, or as the floor of their
// sum. Such a mask is drawn as dropout is: again in every step, and for a micro-batch as for the whole batch. In
// inference nothing is dropped, as with Dropout: the mask is the share that is kept, by which exporters divide.
#pragma once

#include <optional>

#include "plimsoll/models/onnx/node.h"

namespace plimsoll::models::onnx_import {

struct Draw {
  Dims dims;
  double shift = 0;                            // what is added to numbers from 0 to 1
  std::optional<double> share = std::nullopt;  // of a mask: how likely an element is true
  Value scaled = {};                           // of a mask in training: 1 / share where it is true, else 0

  bool is_mask() const { return share.has_value(); }
};

// A mask as truth. UnsupportedError for numbers that are no mask.
Value drawn_value(Importer& importer, const Draw& draw);

// Nodes that make a mask of random numbers, and numbers of a mask. Whether this is one.
bool import_drawn(NodeCall& call);

}  // namespace plimsoll::models::onnx_import
