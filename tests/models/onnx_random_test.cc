// Masks of random numbers, as exporters write stochastic depth.
#include <gtest/gtest.h>

#include <cmath>

#include "plimsoll/base/error.h"
#include "plimsoll/models/onnx/load.h"
#include "plimsoll/train/inference.h"
#include "plimsoll/train/training.h"
#include "tests/models/onnx_graphs.h"

namespace plimsoll::models {
namespace {

constexpr int64_t kBatch = 256;

// y[N,2] = x * weight, each line kept with 0.75 and divided by that. `mask` writes nodes from "line"[N,1] to "mask".
template <class F>
GraphWriter drop_graph(const F& mask) {
  GraphWriter graph;
  graph.input("x", {"N", "2"});
  graph.weight("weight", {2}, {1, 1});
  graph.weight("share", {}, {0.75});
  graph.integers("one", {1});
  auto* shape = graph.node("Shape", {"x"}, {"size"});
  GraphWriter::set(shape, "start", 0);
  GraphWriter::set(shape, "end", 1);
  GraphWriter::set(graph.node("Concat", {"size", "one"}, {"line_shape"}), "axis", 0);
  graph.node("ConstantOfShape", {"line_shape"}, {"line"});
  mask(graph);
  graph.node("Div", {"mask", "share"}, {"factor"});
  graph.node("Mul", {"x", "weight"}, {"product"});
  graph.node("Mul", {"product", "factor"}, {"y"});
  graph.output("y");
  return graph;
}

GraphWriter torchvision_graph() {
  return drop_graph([](GraphWriter& graph) {
    graph.node("RandomUniformLike", {"line"}, {"numbers"});
    graph.node("Less", {"numbers", "share"}, {"kept"});
    GraphWriter::set(graph.node("Cast", {"kept"}, {"mask"}), "to", onnx::TensorProto::FLOAT);
  });
}

GraphWriter transformers_graph() {
  return drop_graph([](GraphWriter& graph) {
    graph.node("RandomUniformLike", {"line"}, {"numbers"});
    graph.node("Add", {"share", "numbers"}, {"sum"});
    graph.node("Floor", {"sum"}, {"mask"});
  });
}

GraphWriter bernoulli_graph() {
  return drop_graph([](GraphWriter& graph) {
    graph.node("Expand", {"share", "line_shape"}, {"shares"});
    graph.node("Bernoulli", {"shares"}, {"mask"});
  });
}

// Lines that the first steps kept; the loss is the mean of y.
std::vector<double> lines_kept(const GraphWriter& graph) {
  train::Training training(parse_onnx(graph.bytes(), "drop.onnx", {.loss = "y"}),
                           {.batch = kBatch, .optimizer = train::sgd(0), .threads = 1, .measure = false});
  const std::vector<float> x(2 * kBatch, 1.0F);
  const train::ArrayBatch batch({{"x", std::span<const float>(x)}});
  std::vector<double> kept;
  for (int i = 0; i < 2; ++i) kept.push_back(static_cast<double>(training.step(batch)) * 0.75 * kBatch);
  return kept;
}

TEST(OnnxRandom, LinesAreDroppedInTraining) {
  for (const GraphWriter& graph : {torchvision_graph(), transformers_graph(), bernoulli_graph()}) {
    const std::vector<double> kept = lines_kept(graph);
    for (const double lines : kept) {
      EXPECT_NEAR(lines, std::round(lines), 1e-3) << "a line is dropped or kept as a whole";
      EXPECT_NEAR(lines, 0.75 * kBatch, 6 * std::sqrt(0.75 * 0.25 * kBatch));
    }
    EXPECT_NE(kept[0], kept[1]) << "each step draws its own";
  }
}

TEST(OnnxRandom, NothingIsDroppedInInference) {
  for (const GraphWriter& graph : {torchvision_graph(), transformers_graph(), bernoulli_graph()}) {
    train::Inference inference(parse_onnx(graph.bytes(), "drop.onnx"), {.batch = 2, .threads = 1});
    const std::vector<float> x = {1, -2, 3, 4};
    const std::vector<float> y = inference.run(train::ArrayBatch({{"x", std::span<const float>(x)}}));
    for (size_t i = 0; i < x.size(); ++i) EXPECT_FLOAT_EQ(y[i], x[i]);
  }
}

TEST(OnnxRandom, OtherRandomNumbersAreAnError) {
  GraphWriter graph;
  graph.input("x", {"N", "2"});
  graph.node("RandomUniformLike", {"x"}, {"numbers"});
  graph.node("Add", {"x", "numbers"}, {"y"});
  graph.output("y");
  try {
    parse_onnx(graph.bytes(), "noise.onnx");
    FAIL() << "it was read";
  } catch (const UnsupportedError& error) {
    EXPECT_NE(std::string(error.what()).find("noise.onnx: node 'make_y' (Add): random numbers"), std::string::npos)
        << error.what();
  }
}

}  // namespace
}  // namespace plimsoll::models
