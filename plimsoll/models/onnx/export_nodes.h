// Nodes for the ops of a program.
#pragma once

#include <string>
#include <vector>

#include "plimsoll/models/onnx/schema.h"
#include "plimsoll/program/op.h"

namespace plimsoll::models::onnx_import {

using program::Dim;
using program::Dims;
using program::Value;

// Appends nodes to a graph. Values keep their names.
class NodeWriter {
 public:
  NodeWriter(GraphProto& graph, const program::Program& program) : graph_(graph), program_(program) {}

  // UnsupportedError for an op that has no form here.
  void write(const program::Op& op);

  const std::string& name(Value value) const { return program_[value].name; }
  const Dims& shape(Value value) const { return program_[value].type.shape; }
  DType dtype(Value value) const { return program_[value].type.dtype; }

  NodeProto* node(const char* op, const std::vector<std::string>& inputs, const std::vector<std::string>& outputs);
  std::string fresh(const std::string& after);               // a name that nothing has
  std::string integers(const std::vector<int64_t>& values);  // the name of an initializer
  std::string integer(int64_t value);                        // of no dimensions, as real
  std::string real(double value);

 private:
  GraphProto& graph_;
  const program::Program& program_;
  int made_ = 0;
};

}  // namespace plimsoll::models::onnx_import
