// Models from ONNX files, for whatever takes a model of the zoo.
//
//   pl::Training training(pl::load_onnx("resnet50.onnx", {.loss = "cross-entropy"}), {.batch = 32, .budget = "2GiB"});
//
// The samples of a batch stay a symbol, so that one file serves all batches and micro-batches; other dimensions that a
// file leaves open are bound when it is loaded. What exporters took apart (GELU, layer norm, attention, biases) is put
// together again (program/passes/optimize.h).
#pragma once

#include <map>
#include <string>

#include "plimsoll/models/zoo/zoo.h"

namespace plimsoll::models {

struct OnnxOptions {
  // Of dimensions that the file names: `batch` and `sequence` as everywhere, others by their names in the file.
  program::Bindings sizes = {};
  std::map<std::string, program::Dims, std::less<>> inputs = {};  // whole shapes, by the names of inputs
  // In training: cross-entropy, lm (cross entropy over the last dimension), mse, bce, or the name of an output that is
  // the loss itself. KIND:OUTPUT for another output than the first. Empty: by the shape of the first output.
  std::string loss = {};
  bool init = false;  // values that the file does not have are drawn; else they are an error when they are read
  bool assume_shapes = false;  // ops that are not known have the shapes that the file says: for estimates
};

// InputError for a file that is none; UnsupportedError that lists all ops that are not known, with domain, opset, count
// and the first node.
ModelInfo load_onnx(const std::string& path, const OnnxOptions& options = {});
// The same of the file's bytes; `name` is for messages.
ModelInfo parse_onnx(std::string_view bytes, const std::string& name, const OnnxOptions& options = {});

}  // namespace plimsoll::models
