// Turns the nodes of a graph into ops of a Net, one after the other. What is known of a tensor while this goes on is
// its Tensor: elements on the host (host.h), a weight of the file, or a value of the program.
//
// All reals become the dtype of the Net, all integers i64: what is computed does not depend on how a file stored it.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "plimsoll/models/nn.h"
#include "plimsoll/models/onnx/host.h"
#include "plimsoll/models/onnx/roles.h"

namespace plimsoll::models::onnx_import {

struct Draw;  // draws.h

struct Tensor {
  int element_type = 0;  // ONNX's; 0: not known
  Value value = {};
  std::shared_ptr<const HostTensor> host = {};
  std::shared_ptr<const TensorData> weight = {};
  std::shared_ptr<const std::vector<Tensor>> items = {};  // of a sequence
  std::shared_ptr<const Draw> draw = {};                  // random numbers that are not in the program yet

  bool is_there() const { return value || host || weight || items || draw; }
};

struct ImportOptions {
  program::Bindings sizes = {};                          // symbols that are numbers from the start
  std::map<std::string, Dims, std::less<>> inputs = {};  // shapes in place of those in the file
  bool batch_is_symbol = true;                           // also where the file has a number in its place
  bool draw_missing = false;                             // values that are not there are drawn
  bool all_outputs = false;    // of the graph; else those that a loss or a caller of a model wants
  bool assume_shapes = false;  // nodes without a rule have the shapes that the file says
  bool as_written = false;     // nodes in training mode stay so: for single ops
};

class NodeCall;
class Symbols;
using Rule = void (*)(NodeCall&);
// The rule of an op; nullptr when there is none. Domains as files write them, "" for ONNX's own.
Rule find_rule(const std::string& domain, const std::string& op);

class Importer {
 public:
  Importer(Net& net, std::shared_ptr<const ModelFile> file, const ImportOptions& options);

  // Inputs, initializers and nodes. InputError and UnsupportedError name the node.
  void run();

  Tensor output(const std::string& name);  // of the graph, after run
  Value value(const Tensor& tensor);       // in the program, put there if it is not
  // The same without dimensions that repeat it, as it broadcasts.
  Value compact_value(const Tensor& tensor);
  const HostTensor* host(Tensor& tensor);  // nullptr when its elements are not known
  Dims dims(const Tensor& tensor) const;
  ElementKind kind(const Tensor& tensor) const;
  DType dtype_of(ElementKind element_kind) const;

  // Parameters of normalisations are not cast.
  Value wide_weight(const Tensor& tensor);
  // In training each call has its own, which it may overwrite: exporters write equal tensors once.
  Value running_statistic(const Tensor& tensor);
  // Constants as state: what the program reads and does not change.
  Value constant(const HostTensor& tensor, const std::string& name);

  void note(std::string text);
  const std::set<std::string>& notes() const { return notes_; }
  std::string value_name(const std::string& name) const;  // made fit, and unique
  std::string input_name(const std::string& name) const;  // of the graph's input, in the program

  Dims dims_in_file(const ValueInfoProto& info) const;  // with the symbols that are bound

  // The matrix that a value is the transpose of; nothing when it is not known to be one.
  Value untransposed(Value value) const;
  void remember_transposed(Value value, Value of) { transposed_[value.index] = of; }

  Net& net;  // NOLINT: rules emit through it
  const ImportOptions& options() const { return options_; }
  const ModelFile& file() const { return *file_; }
  std::shared_ptr<const ModelFile> shared_file() const { return file_; }

  // Subgraphs and functions: names of their own over those around them.
  struct Frame {
    std::unordered_map<std::string, Tensor> names;
    bool sees_outer = true;                                   // functions do not
    std::map<std::string, const AttributeProto*> attributes;  // of the call of a function
    std::map<std::string, int> opsets;                        // by domain; empty: the file's
  };
  std::vector<Tensor> run_graph(const GraphProto& graph, const std::vector<Tensor>& inputs);
  bool run_function(NodeCall& call);

 private:
  friend class NodeCall;
  void add_input(const ValueInfoProto& input, const Symbols& symbols);
  void add_initializers(const GraphProto& graph, Frame& frame);
  void find_roles(const GraphProto& graph);
  void run_nodes(const GraphProto& graph);
  void run_node(const NodeProto& node);
  bool fold(NodeCall& call);
  Tensor& find(const std::string& name, const NodeProto& node);
  DType wide_dtype() const;
  Value in_dtype(Value weight, DType dtype);
  Value parameter(const TensorData& data);
  Init init_of(const TensorData& data) const;
  bool is_trained(const TensorData& data) const;
  int opset(const std::string& domain) const;
  const FunctionProto* find_function(const std::string& domain, const std::string& name) const;

  std::shared_ptr<const ModelFile> file_;
  ImportOptions options_;
  std::vector<Frame> frames_;
  Roles roles_;                                     // of initializers
  std::unordered_map<const void*, Value> weights_;  // of weights and constants that are in the program
  std::unordered_map<const void*, Value> statistics_;
  std::vector<std::shared_ptr<const HostTensor>> kept_;
  std::unordered_map<int32_t, Value> transposed_;
  mutable std::unordered_map<std::string, int> used_names_;  // by the last number that was put behind each
  std::set<std::string> notes_;
  std::shared_ptr<const Symbols> symbols_;
  std::unordered_map<std::string, std::string> input_names_;
  int depth_ = 0;
  int64_t nodes_run_ = 0;
  std::unordered_map<const void*, Value> compact_;  // of constants that are in the program as they are stored
};

struct NodeUse {
  bool needed = false;                  // its results are read on the way to an output of the graph
  std::vector<std::string> last_reads;  // what no needed node after it reads
};
// For each node of the graph.
std::vector<NodeUse> node_uses(const GraphProto& graph);

// For a node without a rule: results of the shapes that the file says.
void assume_node(NodeCall& call);

// All ops that no rule knows, with the first node of each: the text of an error, or nothing.
std::string missing_ops(const ModelFile& file);

}  // namespace plimsoll::models::onnx_import
