// One node of a graph as a rule sees it.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "plimsoll/models/onnx/importer.h"

namespace plimsoll::models::onnx_import {

class NodeCall {
 public:
  NodeCall(Importer& importer, const NodeProto& node, int opset);

  Importer& in;           // NOLINT: rules work through these
  Builder& b;             // NOLINT
  const NodeProto& node;  // NOLINT
  const int opset;        // NOLINT

  int inputs() const { return node.input_size(); }
  int outputs() const { return node.output_size(); }
  bool has(int i) const { return i < node.input_size() && !node.input(i).empty(); }
  bool wants(int k) const { return k < node.output_size() && !node.output(k).empty(); }

  Tensor& tensor(int i) const;  // InputError when it is missing
  Value value(int i) const { return in.value(tensor(i)); }
  Value value_or(int i, Value otherwise) const { return has(i) ? value(i) : otherwise; }
  // As it broadcasts, without dimensions that repeat it.
  Value compact(int i) const;
  Dims shape(int i) const { return in.dims(tensor(i)); }
  int rank(int i) const { return shape(i).rank(); }
  ElementKind kind(int i) const { return in.kind(tensor(i)); }
  bool is_real(int i) const { return kind(i) == ElementKind::real; }
  DType dtype(int i) const { return in.dtype_of(kind(i)); }
  int element_type(int i) const { return tensor(i).element_type; }

  // Elements that must be known now: UnsupportedError says which operand is not.
  const HostTensor& host(int i, std::string_view what) const;
  const HostTensor* try_host(int i) const { return has(i) ? in.host(tensor(i)) : nullptr; }
  std::vector<Dim> dims_of(int i, std::string_view what) const;
  std::vector<int64_t> ints_of(int i, std::string_view what) const;
  std::vector<double> reals_of(int i, std::string_view what) const;
  int64_t int_of(int i, std::string_view what) const;
  double real_of(int i, std::string_view what) const;

  const AttributeProto* attribute(std::string_view name) const;
  int64_t integer(std::string_view name, int64_t otherwise) const;
  double real(std::string_view name, double otherwise) const;
  std::string text(std::string_view name, std::string_view otherwise) const;
  std::vector<int64_t> integers(std::string_view name) const;
  std::vector<double> reals(std::string_view name) const;
  bool flag(std::string_view name, bool otherwise = false) const { return integer(name, otherwise ? 1 : 0) != 0; }
  // Axes in an attribute or, later, in an operand: counted from the front. Empty where they are not given.
  std::vector<int64_t> axes(std::string_view name, int operand, int rank) const;
  int axis(int64_t given, int rank) const;  // from the front; InputError when there is none

  void set(int k, Value value, int element_type = 0) const;
  void set(int k, HostTensor tensor, int element_type = 0) const;
  void set(int k, Tensor tensor) const;
  void set_same(Value value) const { set(0, value, element_type(0)); }  // with the first operand's type

  [[noreturn]] void reject(std::string_view why) const;       // the file is wrong
  [[noreturn]] void unsupported(std::string_view why) const;  // it is right, and beyond us
  void require(bool holds, std::string_view why) const {
    if (!holds) unsupported(why);
  }

  // A constant of an operand's dtype.
  Value scalar(double value, DType dtype) const;
  Value as(Value value, DType dtype) const;
  // Integers that were computed in i64, cut to the bits that elements of this type have.
  Value wrapped(Value value, int element_type) const;
};

std::string node_text(const NodeProto& node);  // "node 'conv1' (Conv)"

// What an op computes of operands whose elements are known; nothing where it cannot be told.
bool fold_node(NodeCall& call, const std::vector<const HostTensor*>& operands);

struct RuleEntry {
  std::string_view op;
  Rule rule;
};
struct RuleFamily {
  std::string_view domain;
  std::span<const RuleEntry> rules;
};
// The families, one file each.
RuleFamily math_rules();
RuleFamily logic_rules();
RuleFamily shape_rules();
RuleFamily index_rules();
RuleFamily nn_rules();
RuleFamily pool_rules();
RuleFamily norm_rules();
RuleFamily reduce_rules();
RuleFamily product_rules();
RuleFamily quantize_rules();
RuleFamily rnn_rules();
RuleFamily attention_rules();
RuleFamily control_rules();
RuleFamily loss_rules();
RuleFamily signal_rules();
RuleFamily contrib_rules();
RuleFamily random_rules();

}  // namespace plimsoll::models::onnx_import
