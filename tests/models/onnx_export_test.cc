#include <gtest/gtest.h>

#include <cstdio>

#include "plimsoll/base/error.h"
#include "plimsoll/base/file.h"
#include "plimsoll/models/onnx/export.h"
#include "plimsoll/models/onnx/load.h"
#include "plimsoll/train/inference.h"
#include "tests/models/onnx_graphs.h"

namespace plimsoll::models {
namespace {

std::string exported(const GraphWriter& graph) {
  const std::string path = testing::TempDir() + "exported.onnx";
  const int64_t bytes = export_onnx(parse_onnx(graph.bytes(), "model.onnx"), path, {.sizes = {{"batch", 1}}});
  std::string text = read_file(path);
  EXPECT_EQ(bytes, static_cast<int64_t>(text.size()));
  std::remove(path.c_str());
  return text;
}

std::vector<float> run(const std::string& bytes, const std::vector<float>& x) {
  train::Inference inference(parse_onnx(bytes, "model.onnx"), {.batch = 1, .threads = 1});
  return inference.run(train::ArrayBatch({{"x", std::span<const float>(x)}}));
}

// As BERT's token types are, which are all the first.
TEST(OnnxExport, ConstantsOfIntegersStayIntegers) {
  GraphWriter graph;
  graph.input("x", {"N", "3", "2"});
  graph.weight("types", {2, 2}, {1, 2, 3, 4});
  graph.integers("shape", {1, 3});
  onnx::AttributeProto* value = graph.node("ConstantOfShape", {"shape"}, {"type"})->add_attribute();
  value->set_name("value");
  value->set_type(onnx::AttributeProto::TENSOR);
  value->mutable_t()->set_data_type(onnx::TensorProto::INT64);
  value->mutable_t()->add_dims(1);
  value->mutable_t()->add_int64_data(1);
  graph.node("Gather", {"types", "type"}, {"chosen"});
  graph.node("Add", {"x", "chosen"}, {"y"});
  graph.output("y");
  const std::vector<float> x = {0, 0, 1, 1, 2, 2};
  const std::vector<float> y = {3, 4, 4, 5, 5, 6};
  EXPECT_EQ(run(graph.bytes(), x), y);
  EXPECT_EQ(run(exported(graph), x), y);
}

TEST(OnnxExport, AveragePoolsWithDilationAreRefused) {
  GraphWriter graph(19);
  graph.input("x", {"N", "1", "5", "5"});
  onnx::NodeProto* pool = graph.node("AveragePool", {"x"}, {"y"});
  GraphWriter::set(pool, "kernel_shape", std::vector<int64_t>{2, 2});
  GraphWriter::set(pool, "dilations", std::vector<int64_t>{2, 2});
  graph.output("y");
  EXPECT_THROW(exported(graph), UnsupportedError);
}

}  // namespace
}  // namespace plimsoll::models
