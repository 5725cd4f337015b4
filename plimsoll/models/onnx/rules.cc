// The table of all rules, and what can be said of a graph by it before anything is imported.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <unordered_map>

#include "plimsoll/base/error.h"
#include "plimsoll/models/onnx/importer.h"
#include "plimsoll/models/onnx/node.h"
#include "plimsoll/program/ops/constant.h"
#include "plimsoll/program/ops/elementwise_binary.h"
#include "plimsoll/program/ops/elementwise_unary.h"
#include "plimsoll/program/ops/reduce.h"
#include "plimsoll/program/ops/shape.h"

namespace plimsoll::models::onnx_import {
namespace {

using RuleTable = std::unordered_map<std::string, Rule>;

std::string plain_domain(const std::string& domain) { return domain == "ai.onnx" ? "" : domain; }

std::string rule_key(const std::string& domain, const std::string& op) { return plain_domain(domain) + "::" + op; }

RuleTable make_rules() {
  RuleTable made;
  for (const RuleFamily& family :
       {math_rules(), logic_rules(), shape_rules(), index_rules(), nn_rules(), pool_rules(), norm_rules(),
        reduce_rules(), product_rules(), quantize_rules(), rnn_rules(), attention_rules(), control_rules(),
        loss_rules(), signal_rules(), contrib_rules(), random_rules()}) {
    for (const RuleEntry& entry : family.rules) {
      made[rule_key(std::string(family.domain), std::string(entry.op))] = entry.rule;
    }
  }
  return made;
}

using Nodes = google::protobuf::RepeatedPtrField<NodeProto>;

// All nodes, also those of subgraphs.
void for_each_node(const Nodes& nodes, const std::function<void(const NodeProto&)>& f) {
  for (const NodeProto& node : nodes) {
    f(node);
    for (const AttributeProto& attribute : node.attribute()) {
      if (attribute.has_g()) for_each_node(attribute.g().node(), f);
      for (const GraphProto& graph : attribute.graphs()) for_each_node(graph.node(), f);
    }
  }
}

// What a node reads, with what its subgraphs may read from around them.
void collect_reads(const NodeProto& node, std::set<std::string>& names) {
  for (const std::string& input : node.input()) names.insert(input);
  for (const AttributeProto& attribute : node.attribute()) {
    if (!attribute.has_g()) continue;
    for_each_node(attribute.g().node(), [&](const NodeProto& inner) {
      for (const std::string& input : inner.input()) names.insert(input);
    });
    for (const ValueInfoProto& output : attribute.g().output()) names.insert(output.name());
  }
}

struct MissingOp {
  std::string first;
  int count = 0;
};

}  // namespace

Rule find_rule(const std::string& domain, const std::string& op) {
  static const RuleTable rules = make_rules();
  const auto found = rules.find(rule_key(domain, op));
  return found == rules.end() ? nullptr : found->second;
}

std::vector<NodeUse> node_uses(const GraphProto& graph) {
  std::set<std::string> names;
  for (const ValueInfoProto& output : graph.output()) names.insert(output.name());
  std::vector<NodeUse> uses(static_cast<size_t>(graph.node_size()));
  for (int i = graph.node_size() - 1; i >= 0; --i) {
    const NodeProto& node = graph.node(i);
    NodeUse& use = uses[static_cast<size_t>(i)];
    const auto is_read = [&](const std::string& output) { return !output.empty() && names.contains(output); };
    use.needed = std::any_of(node.output().begin(), node.output().end(), is_read);
    if (!use.needed) continue;
    std::set<std::string> reads;
    collect_reads(node, reads);
    for (const std::string& name : reads) {
      if (names.insert(name).second) use.last_reads.push_back(name);
    }
  }
  return uses;
}

std::string missing_ops(const ModelFile& file) {
  std::map<std::string, const FunctionProto*> functions;
  for (const FunctionProto& function : file.proto.functions()) {
    functions[rule_key(function.domain(), function.name())] = &function;
  }
  std::map<std::string, MissingOp> missing;
  std::set<std::string> seen;
  std::function<void(const NodeProto&)> look = [&](const NodeProto& node) {
    if (find_rule(node.domain(), node.op_type()) != nullptr) return;
    const std::string key = rule_key(node.domain(), node.op_type());
    if (const auto function = functions.find(key); function != functions.end()) {
      if (seen.insert(key).second) for_each_node(function->second->node(), look);
      return;
    }
    const std::string domain = plain_domain(node.domain());
    const std::string op = fmt::format("{} (domain {}, opset {})", node.op_type(), domain.empty() ? "ai.onnx" : domain,
                                       file.opset(node.domain()));
    MissingOp& one = missing[op];
    if (one.count++ == 0) one.first = node.name().empty() && node.output_size() > 0 ? node.output(0) : node.name();
  };
  for_each_node(file.proto.graph().node(), look);
  if (missing.empty()) return {};
  std::string text;
  for (const auto& [op, one] : missing) {
    text +=
        fmt::format("\n  {}: {} node{}, the first is {}", op, one.count, one.count == 1 ? "" : "s", quote(one.first));
  }
  return text;
}

// One number of each operand, spread over the shape: it depends on what the node reads, and takes its memory.
void assume_node(NodeCall& call) {
  for (int k = 0; k < call.outputs(); ++k) {
    if (!call.wants(k)) continue;
    const ValueInfoProto* known = nullptr;
    const GraphProto& graph = call.in.file().proto.graph();
    for (const auto* list : {&graph.value_info(), &graph.output()}) {
      for (const ValueInfoProto& info : *list) {
        if (info.name() == call.node.output(k)) known = &info;
      }
    }
    if (known == nullptr || !known->type().tensor_type().has_shape()) {
      call.unsupported(fmt::format("there is no rule for this op, and the file does not say the shape of its result {}",
                                   quote(call.node.output(k))));
    }
    const Dims dims = call.in.dims_in_file(*known);
    Value sum = call.scalar(0, call.in.net.dtype());
    for (int i = 0; i < call.inputs(); ++i) {
      if (call.has(i) && call.is_real(i)) sum = program::add(call.b, sum, program::mean(call.b, call.value(i)));
    }
    const Value spread = program::add(call.b, program::fill(call.b, 1, {call.in.net.dtype(), dims}), sum);
    const int type = known->type().tensor_type().elem_type();
    const ElementKind kind = element_kind(call.in.file(), type, "a result");
    call.set(k, call.as(spread, call.in.dtype_of(kind)), type);
    call.in.note(fmt::format("{} has no rule: its results have the shapes that the file says", node_text(call.node)));
  }
}

}  // namespace plimsoll::models::onnx_import
