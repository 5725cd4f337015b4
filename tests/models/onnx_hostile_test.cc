// Graphs that nobody exports: each is refused in words, or computed as ONNX says.
#include <gtest/gtest.h>

#include <chrono>
#include <cmath>

#include "plimsoll/base/error.h"
#include "plimsoll/models/onnx/load.h"
#include "plimsoll/train/inference.h"
#include "tests/models/onnx_graphs.h"

namespace plimsoll::models {
namespace {

using onnx::TensorProto;

std::string message_of(const GraphWriter& graph) {
  try {
    parse_onnx(graph.bytes(), "model.onnx").build({.training = false}, Size::full);
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

void expect_refused(const GraphWriter& graph, std::string_view why) {
  const std::string message = message_of(graph);
  EXPECT_NE(message.find(why), std::string::npos) << message;
}

std::vector<float> run(const GraphWriter& graph, const std::vector<float>& x, int64_t batch) {
  train::Inference inference(parse_onnx(graph.bytes(), "model.onnx"), {.batch = batch, .threads = 1});
  return inference.run(train::ArrayBatch({{"x", std::span<const float>(x)}}));
}

// x[N, 4] to y.
GraphWriter graph_of_rows(int opset = 18) {
  GraphWriter graph(opset);
  graph.input("x", {"N", "4"});
  graph.output("y");
  return graph;
}

// "From the start" and "to the end" are the least and the largest number in what exporters write.
TEST(OnnxHostile, NumbersOfAttributesMayBeTheLeastAndTheLargest) {
  GraphWriter old = graph_of_rows(9);
  onnx::NodeProto* slice = old.node("Slice", {"x"}, {"y"});
  GraphWriter::set(slice, "starts", std::vector<int64_t>{INT64_MIN});
  GraphWriter::set(slice, "ends", std::vector<int64_t>{INT64_MAX});
  GraphWriter::set(slice, "axes", std::vector<int64_t>{1});
  EXPECT_EQ(run(old, {1, 2, 3, 4}, 1), (std::vector<float>{1, 2, 3, 4}));

  GraphWriter graph = graph_of_rows();
  GraphWriter::set(graph.node("Constant", {}, {"end"}), "value_int", INT64_MAX);
  graph.integers("one", {1});
  graph.integers("zero", {0});
  graph.node("Unsqueeze", {"end", "zero"}, {"ends"});
  graph.node("Slice", {"x", "one", "ends", "one"}, {"y"});
  EXPECT_EQ(run(graph, {1, 2, 3, 4}, 1), (std::vector<float>{2, 3, 4}));

  GraphWriter filled = graph_of_rows();
  filled.integers("one", {1});
  TensorProto* value = filled.node("ConstantOfShape", {"one"}, {"ends"})->add_attribute()->mutable_t();
  filled.model.mutable_graph()->mutable_node(0)->mutable_attribute(0)->set_name("value");
  filled.model.mutable_graph()->mutable_node(0)->mutable_attribute(0)->set_type(onnx::AttributeProto::TENSOR);
  value->set_data_type(TensorProto::INT64);
  value->add_dims(1);
  value->add_int64_data(INT64_MAX);
  filled.node("Slice", {"x", "one", "ends", "one"}, {"y"});
  EXPECT_EQ(run(filled, {1, 2, 3, 4}, 1), (std::vector<float>{2, 3, 4}));
}

TEST(OnnxHostile, NumbersThatAreNoneComeToAnEnd) {
  GraphWriter graph = graph_of_rows();
  GraphWriter::set_real(graph.node("Shrink", {"x"}, {"y"}), "lambd", std::nanf(""));
  EXPECT_EQ(message_of(graph), "no error");
}

TEST(OnnxHostile, BlocksWhoseSquareDoesNotFitAreRefused) {
  for (const char* op : {"DepthToSpace", "SpaceToDepth"}) {
    for (const int64_t size : {int64_t{0}, int64_t{-2}, int64_t{1} << 40}) {
      GraphWriter graph(18);
      graph.input("x", {"N", "4", "2", "2"});
      graph.output("y");
      GraphWriter::set(graph.node(op, {"x"}, {"y"}), "blocksize", size);
      expect_refused(graph, "the blocksize is " + std::to_string(size) + "; expected 1 to 65536");
    }
  }
}

TEST(OnnxHostile, ConstantsThatLackAnOperandAreRefused) {
  for (const char* op : {"Where", "Range", "Max", "Concat"}) {
    GraphWriter graph = graph_of_rows();
    graph.integers("a", {1});
    graph.integers("b", {4});
    GraphWriter::set(graph.node(op, {"a", "b", ""}, {"shape"}), "axis", 0);
    graph.node("Reshape", {"x", "shape"}, {"y"});
    expect_refused(graph, "operand 2 is missing");
  }
}

// What a graph computes on the host is held; a few bytes of a file must not ask for more than that.
TEST(OnnxHostile, ConstantsWithoutEndTakeNoMemory) {
  const auto ones = [](int64_t count) {
    GraphWriter graph = graph_of_rows();
    graph.integers("count", {count});
    graph.integers("one", {1});
    graph.node("ConstantOfShape", {"count"}, {"ones"});
    return graph;
  };
  GraphWriter shape = ones(int64_t{1} << 37);
  shape.node("Cast", {"ones"}, {"whole"})->add_attribute()->set_name("to");
  shape.model.mutable_graph()->mutable_node(1)->mutable_attribute(0)->set_i(TensorProto::INT64);
  shape.node("Reshape", {"x", "whole"}, {"y"});
  expect_refused(shape, "more than are computed on the host");

  GraphWriter slice = ones(int64_t{1} << 37);
  slice.integers("far", {int64_t{1} << 36});
  slice.node("Slice", {"ones", "one", "far"}, {"most"});
  slice.node("ReduceSum", {"most"}, {"sum"});
  slice.node("Add", {"x", "sum"}, {"y"});
  EXPECT_EQ(message_of(slice), "no error");

  GraphWriter matrix = graph_of_rows();
  matrix.integers("size", {int64_t{1} << 30, int64_t{1} << 30});
  matrix.node("ConstantOfShape", {"size"}, {"zeros"});
  matrix.node("Trilu", {"zeros"}, {"part"});
  matrix.node("ReduceMax", {"part"}, {"most"});
  matrix.node("Add", {"x", "most"}, {"y"});
  EXPECT_EQ(message_of(matrix), "no error");

  GraphWriter range = graph_of_rows();
  for (const auto& [name, number] : {std::pair("start", int64_t{0}), {"limit", INT64_MAX}, {"step", INT64_MAX - 1}}) {
    range.integers(name, {number})->clear_dims();
  }
  range.node("Range", {"start", "limit", "step"}, {"shape"});
  range.node("Size", {"shape"}, {"two"});
  GraphWriter::set(range.node("Cast", {"two"}, {"number"}), "to", TensorProto::FLOAT);
  range.node("Add", {"x", "number"}, {"y"});
  EXPECT_EQ(run(range, {1, 2, 3, 4}, 1), (std::vector<float>{3, 4, 5, 6}));
}

// 64 times 2^58 is zero in 64 bits.
TEST(OnnxHostile, TensorsOfMoreBitsThanCountAreRefused) {
  for (const auto& [type, elements] : {std::pair{TensorProto::DOUBLE, int64_t{1} << 58},
                                       {TensorProto::FLOAT, int64_t{1} << 59},
                                       {TensorProto::INT64, int64_t{1} << 58}}) {
    GraphWriter graph = graph_of_rows();
    TensorProto* tensor = graph.model.mutable_graph()->add_initializer();
    tensor->set_name("w");
    tensor->set_data_type(type);
    tensor->add_dims(elements);
    tensor->set_raw_data("");
    graph.node("Add", {"x", "w"}, {"y"});
    expect_refused(graph, "tensor 'w' has 0 bytes, expected");
  }
}

TEST(OnnxHostile, FourBitNumbersInFieldsAreRead) {
  constexpr int kInt4 = 22;
  GraphWriter graph = graph_of_rows(21);
  TensorProto* tensor = graph.model.mutable_graph()->add_initializer();
  tensor->set_name("w");
  tensor->set_data_type(kInt4);
  tensor->add_dims(3);
  tensor->add_int32_data(0xF1);  // 1, -1
  tensor->add_int32_data(0x07);  // 7
  GraphWriter::set(graph.node("Cast", {"w"}, {"reals"}), "to", TensorProto::FLOAT);
  graph.node("ReduceSum", {"reals"}, {"sum"});
  graph.node("Add", {"x", "sum"}, {"y"});
  EXPECT_EQ(run(graph, {0, 0, 0, 1}, 1), (std::vector<float>{7, 7, 7, 8}));
}

TEST(OnnxHostile, OperandsOfTheWrongKindAreRefused) {
  GraphWriter gather = graph_of_rows();
  gather.weight("place", {}, {1});
  GraphWriter::set(gather.node("Gather", {"x", "place"}, {"y"}), "axis", 1);
  EXPECT_NE(message_of(gather), "no error");

  GraphWriter trilu;
  trilu.input("x", {"N"});
  trilu.node("Trilu", {"x"}, {"y"});
  trilu.output("y");
  expect_refused(trilu, "the operand must be matrices");

  GraphWriter transposed;
  transposed.input("x", {"N", "1", "4", "4"});
  transposed.weight("w", {1, 1, 2, 2}, {1, 1, 1, 1});
  GraphWriter::set(transposed.node("ConvTranspose", {"x", "w"}, {"y"}), "output_shape", std::vector<int64_t>{5});
  transposed.output("y");
  expect_refused(transposed, "output_shape has 1 numbers, expected 2");
}

TEST(OnnxHostile, ALoopWhoseConditionIsNoTruthIsRefused) {
  GraphWriter graph = graph_of_rows();
  graph.integers("turns", {3})->clear_dims();
  graph.weight("real", {}, {1});
  onnx::AttributeProto* body = graph.node("Loop", {"turns", "", "real"}, {"last"})->add_attribute();
  body->set_name("body");
  body->set_type(onnx::AttributeProto::GRAPH);
  for (const char* name : {"turn", "holds", "value"}) body->mutable_g()->add_input()->set_name(name);
  for (const char* name : {"value", "value"}) body->mutable_g()->add_output()->set_name(name);
  graph.node("Add", {"x", "last"}, {"y"});
  expect_refused(graph, "the condition of the loop is no truth value");
}

TEST(OnnxHostile, NothingPutTogetherIsNothing) {
  GraphWriter graph = graph_of_rows();
  graph.integers("a", {});
  graph.integers("b", {});
  GraphWriter::set(graph.node("Concat", {"a", "b"}, {"none"}), "axis", 0);
  graph.node("Size", {"none"}, {"count"});
  GraphWriter::set(graph.node("Cast", {"count"}, {"number"}), "to", TensorProto::FLOAT);
  graph.node("Add", {"x", "number"}, {"y"});
  EXPECT_EQ(run(graph, {1, 2, 3, 4}, 1), (std::vector<float>{1, 2, 3, 4}));
}

TEST(OnnxHostile, AnInputThatIsNotThereIsToldBesideThoseThatAre) {
  try {
    parse_onnx(graph_of_rows().bytes(), "model.onnx", {.inputs = {{"ids", {1, 4}}}});
    FAIL();
  } catch (const ArgumentError& error) {
    EXPECT_STREQ(error.what(), "model.onnx has no input 'ids'; it has 'x'");
  }
}

// Unnamed constants share one name, with numbers behind it.
TEST(OnnxHostile, ManyConstantsAreReadInTimeThatGrowsAsTheyDo) {
  const auto seconds = [](int count) {
    GraphWriter graph = graph_of_rows();
    std::string last = "x";
    for (int i = 0; i < count; ++i) {
      const std::string name = "k" + std::to_string(i);
      onnx::AttributeProto* value = graph.node("Constant", {}, {name})->add_attribute();
      value->set_name("value_floats");
      value->set_type(onnx::AttributeProto::FLOATS);
      for (const float one : {1.0F, 2.0F, 3.0F, static_cast<float>(i)}) value->add_floats(one);
      graph.node("Add", {last, name}, {"sum" + std::to_string(i)});
      last = "sum" + std::to_string(i);
    }
    graph.node("Identity", {last}, {"y"});
    const auto start = std::chrono::steady_clock::now();
    EXPECT_EQ(message_of(graph), "no error");
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  };
  const double few = seconds(1000);
  EXPECT_LT(seconds(4000), 10 * few + 0.2);
}

}  // namespace
}  // namespace plimsoll::models
