// ONNX Runtime's own ops, as its optimizer writes them, against the nodes they stand for.
#include <gtest/gtest.h>

#include <algorithm>

#include "plimsoll/base/error.h"
#include "plimsoll/models/onnx/load.h"
#include "tests/models/onnx_graphs.h"

namespace plimsoll::models {
namespace {

Model inference_of(const GraphWriter& graph) {
  return parse_onnx(graph.bytes(), "a.onnx").build({.training = false}, Size::full);
}

// "conv relu", without what only shapes.
std::string ops_of(const Model& model) {
  std::string names;
  for (const program::Op& op : model.program.ops) {
    if (op.def->name != "reshape" && op.def->name != "fill" && op.def->name != "transpose") names += op.def->name + " ";
  }
  return names;
}

onnx::NodeProto* contrib(GraphWriter& graph, const std::string& op, const std::vector<std::string>& inputs) {
  onnx::NodeProto* node = graph.node(op, inputs, {"y"});
  node->set_domain("com.microsoft");
  graph.output("y");
  return node;
}

void set_text(onnx::NodeProto* node, const std::string& name, const std::string& text) {
  onnx::AttributeProto* attribute = node->add_attribute();
  attribute->set_name(name);
  attribute->set_type(onnx::AttributeProto::STRING);
  attribute->set_s(text);
}

GraphWriter fused_conv(const std::string& activation) {
  GraphWriter graph;
  graph.input("x", {"N", "2", "4", "4"});
  graph.weight("w", {2, 2, 1, 1}, {1, 2, 3, 4});
  graph.weight("b", {2}, {1, 2});
  set_text(contrib(graph, "FusedConv", {"x", "w", "b", "x"}), "activation", activation);
  return graph;
}

TEST(OnnxContrib, FusedConvAddsAndActivates) {
  EXPECT_EQ(ops_of(inference_of(fused_conv("Relu"))), "conv add relu ");
  EXPECT_EQ(ops_of(inference_of(fused_conv("HardSigmoid"))), "conv add hard_sigmoid ");
  EXPECT_THROW(inference_of(fused_conv("Whirl")), UnsupportedError);
}

TEST(OnnxContrib, FusedGemmActivates) {
  GraphWriter graph;
  graph.input("x", {"N", "2"});
  graph.weight("w", {3, 2}, {1, 2, 3, 4, 5, 6});
  graph.weight("b", {3}, {1, 2, 3});
  onnx::NodeProto* node = contrib(graph, "FusedGemm", {"x", "w", "b"});
  GraphWriter::set(node, "transB", 1);
  set_text(node, "activation", "Tanh");
  EXPECT_EQ(ops_of(inference_of(graph)), "linear tanh ");
}

TEST(OnnxContrib, EmbedLayerNormalizationAddsTables) {
  GraphWriter graph;
  graph.input("ids", {"N", "3"}, onnx::TensorProto::INT64);
  graph.input("segments", {"N", "3"}, onnx::TensorProto::INT64);
  for (const char* table : {"words", "positions", "kinds"}) graph.weight(table, {4, 2}, {1, 2, 3, 4, 5, 6, 7, 8});
  graph.weight("scale", {2}, {1, 2});
  graph.weight("shift", {2}, {1, 2});
  contrib(graph, "EmbedLayerNormalization", {"ids", "segments", "words", "positions", "kinds", "scale", "shift"});
  EXPECT_EQ(ops_of(inference_of(graph)), "embedding slice add embedding add layer_norm ");
}

// Of [batch, keys]: which keys take part.
TEST(OnnxContrib, AttentionTakesAMaskOfKeys) {
  GraphWriter graph;
  graph.input("x", {"N", "3", "4"});
  graph.input("mask", {"N", "3"}, onnx::TensorProto::INT32);
  graph.weight("w", {4, 12}, std::vector<float>(48, 0.5F));
  graph.weight("b", {12}, std::vector<float>(12, 0.5F));
  onnx::NodeProto* node = contrib(graph, "Attention", {"x", "w", "b", "mask"});
  GraphWriter::set(node, "num_heads", 2);
  const Model model = inference_of(graph);
  const auto is_attention = [](const program::Op& op) { return op.def->name == "attention"; };
  const auto found = std::find_if(model.program.ops.begin(), model.program.ops.end(), is_attention);
  ASSERT_NE(found, model.program.ops.end());
  ASSERT_EQ(found->inputs.size(), 4U);
  EXPECT_EQ(model.program[found->inputs[3]].type.text(), "bool[batch,1,1,3]");
}

// ONNX Runtime's optimizer gathers the sizes of a shape by splitting it.
TEST(OnnxContrib, SplitsOfShapesAreFolded) {
  GraphWriter graph;
  graph.input("x", {"N", "2", "3"});
  graph.node("Shape", {"x"}, {"shape"});
  GraphWriter::set(graph.node("Split", {"shape"}, {"first", "second", "third"}), "num_outputs", 3);
  graph.node("Concat", {"first", "third", "second"}, {"turned"});
  GraphWriter::set(graph.model.mutable_graph()->mutable_node(2), "axis", 0);
  graph.node("Reshape", {"x", "turned"}, {"y"});
  graph.output("y");
  const Model model = inference_of(graph);
  EXPECT_EQ(model.program[model.result].type.text(), "f32[batch,3,2]");
}

}  // namespace
}  // namespace plimsoll::models
