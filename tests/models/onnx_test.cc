#include <gtest/gtest.h>

#include <filesystem>

#include "plimsoll/base/error.h"
#include "plimsoll/base/file.h"
#include "plimsoll/memory/limits.h"
#include "plimsoll/models/onnx/load.h"
#include "plimsoll/models/step.h"
#include "plimsoll/plan/estimate.h"
#include "plimsoll/run/session.h"
#include "plimsoll/train/inference.h"
#include "plimsoll/train/training.h"
#include "tests/models/onnx_graphs.h"

namespace plimsoll::models {
namespace {

// [batch, 3] to two classes.
GraphWriter linear_graph() {
  GraphWriter graph;
  graph.input("x", {"N", "3"});
  graph.weight("fc.weight", {2, 3}, {1, 2, 3, -1, 0, 1});
  graph.weight("fc.bias", {2}, {0.5, -0.5});
  GraphWriter::set(graph.node("Gemm", {"x", "fc.weight", "fc.bias"}, {"y"}), "transB", 1);
  graph.output("y");
  return graph;
}

std::string message_of(const GraphWriter& graph, const OnnxOptions& options = {}) {
  try {
    parse_onnx(graph.bytes(), "model.onnx", options).build({.training = false}, Size::full);
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

int count_ops(const ModelInfo& info, std::string_view op, bool training = false) {
  int count = 0;
  for (const program::Op& one : info.build({.training = training}, Size::full).program.ops) {
    count += one.def->name == op ? 1 : 0;
  }
  return count;
}

TEST(Onnx, RunsWithTheWeightsOfTheFile) {
  const ModelInfo info = parse_onnx(linear_graph().bytes(), "linear.onnx");
  EXPECT_EQ(info.usual.count("batch"), 1U);
  train::Inference inference(info, {.batch = 2, .threads = 1});
  const std::vector<float> x = {1, 0, 0, 0, 1, 1};
  const std::vector<float> y = inference.run(train::ArrayBatch({{"x", std::span<const float>(x)}}));
  EXPECT_EQ(y, (std::vector<float>{1.5, -1.5, 5.5, 0.5}));
}

TEST(Onnx, TrainsByALossThatIsNamed) {
  const ModelInfo info = parse_onnx(linear_graph().bytes(), "linear.onnx", {.loss = "cross-entropy"});
  train::Training training(info, {.batch = 4, .threads = 1, .measure = false});
  const float first = training.step();
  for (int i = 0; i < 20; ++i) training.step();
  EXPECT_LT(training.step(), first);
  EXPECT_NE(training.read("fc.weight"), (std::vector<float>{1, 2, 3, -1, 0, 1}));
}

TEST(Onnx, ALossThatIsNoneIsRefused) {
  const ModelInfo info = parse_onnx(linear_graph().bytes(), "linear.onnx", {.loss = "hinge"});
  EXPECT_THROW(info.build({.training = true}, Size::full), ArgumentError);
}

TEST(Onnx, FoldsTheArithmeticOfShapes) {
  GraphWriter graph;
  graph.input("x", {"batch", "4", "6"});
  graph.node("Shape", {"x"}, {"shape"});
  graph.integers("zero", {0});
  graph.integers("rest", {-1});
  graph.node("Gather", {"shape", "zero"}, {"n"});
  graph.node("Concat", {"n", "rest"}, {"to"})->add_attribute()->set_name("axis");
  graph.node("Reshape", {"x", "to"}, {"y"});
  graph.output("y");
  const Model model = parse_onnx(graph.bytes(), "shape.onnx").build({.training = false}, Size::full);
  EXPECT_EQ(model.program[model.result].type.text(), "f32[batch,24]");
  EXPECT_TRUE(model.program.state.empty());
}

TEST(Onnx, DimensionsAreBoundByName) {
  GraphWriter graph;
  graph.input("x", {"N", "frames", "5"});
  graph.node("Relu", {"x"}, {"y"});
  graph.output("y");
  const ModelInfo info = parse_onnx(graph.bytes(), "dims.onnx", {.sizes = {{"frames", 7}}});
  const Model model = info.build({.training = false}, Size::full);
  EXPECT_EQ(model.program[model.result].type.text(), "f32[batch,7,5]");
  EXPECT_THROW(parse_onnx(graph.bytes(), "dims.onnx", {.sizes = {{"frame", 7}}}), ArgumentError);
  EXPECT_THROW(bindings(info, {{"frames", 8}}), ArgumentError);
}

TEST(Onnx, PutsGeluTogetherAgain) {
  GraphWriter graph;
  graph.input("x", {"N", "8"});
  graph.weight("root", {}, {1.41421356F});
  graph.weight("one", {}, {1});
  graph.weight("half", {}, {0.5});
  graph.node("Div", {"x", "root"}, {"a"});
  graph.node("Erf", {"a"}, {"b"});
  graph.node("Add", {"b", "one"}, {"c"});
  graph.node("Mul", {"x", "c"}, {"d"});
  graph.node("Mul", {"d", "half"}, {"y"});
  graph.output("y");
  const ModelInfo info = parse_onnx(graph.bytes(), "gelu.onnx");
  EXPECT_EQ(count_ops(info, "gelu"), 1);
  ASSERT_EQ(info.notes({.training = false}).size(), 1U);
  EXPECT_EQ(info.notes({.training = false})[0], "put together again: 1 gelu");
}

TEST(Onnx, MatmulOfATransposedWeightIsALinearLayer) {
  GraphWriter graph;
  graph.input("x", {"N", "2", "3"});
  graph.weight("w", {4, 3}, std::vector<float>(12, 1));
  graph.weight("bias", {4}, {1, 2, 3, 4});
  GraphWriter::set(graph.node("Transpose", {"w"}, {"t"}), "perm", std::vector<int64_t>{1, 0});
  graph.node("MatMul", {"x", "t"}, {"p"});
  graph.node("Add", {"bias", "p"}, {"y"});
  graph.output("y");
  const ModelInfo info = parse_onnx(graph.bytes(), "linear.onnx");
  EXPECT_EQ(count_ops(info, "linear"), 1);
  EXPECT_EQ(count_ops(info, "add"), 0);
}

TEST(Onnx, BatchNormOfAnInferenceExportTrains) {
  GraphWriter graph;
  graph.input("x", {"N", "2", "4", "4"});
  for (const char* name : {"scale", "shift", "mean", "var"}) graph.weight(name, {2}, {1, 1});
  graph.node("BatchNormalization", {"x", "scale", "shift", "mean", "var"}, {"y"});
  graph.output("y");
  const ModelInfo info = parse_onnx(graph.bytes(), "bn.onnx", {.loss = "mse"});
  EXPECT_EQ(count_ops(info, "batch_norm", true), 1);
  EXPECT_EQ(count_ops(info, "batch_norm_inference"), 1);
  EXPECT_EQ(info.build({.training = true}, Size::full).program.state.size(), 2U);
}

TEST(Onnx, FunctionsAreInlined) {
  GraphWriter graph;
  graph.input("x", {"N", "3"});
  graph.node("Twice", {"x"}, {"y"})->set_domain("my");
  graph.output("y");
  onnx::FunctionProto* function = graph.model.add_functions();
  function->set_name("Twice");
  function->set_domain("my");
  function->add_input("a");
  function->add_output("b");
  onnx::NodeProto* node = function->add_node();
  node->set_op_type("Add");
  node->add_input("a");
  node->add_input("a");
  node->add_output("b");
  EXPECT_EQ(message_of(graph), "no error");
  node->set_op_type("Twice");
  node->set_domain("my");
  node->mutable_input()->RemoveLast();
  EXPECT_NE(message_of(graph).find("without end"), std::string::npos) << message_of(graph);
}

// ---- what is not known ----

TEST(Onnx, ListsAllOpsThatHaveNoRule) {
  GraphWriter graph = linear_graph();
  graph.node("Frobnicate", {"y"}, {"a"})->set_domain("my.own");
  graph.node("Frobnicate", {"a"}, {"b"})->set_domain("my.own");
  graph.node("Whirl", {"b"}, {"c"});
  const std::string message = message_of(graph);
  EXPECT_NE(message.find("Frobnicate (domain my.own, opset 1): 2 nodes, the first is 'make_a'"), std::string::npos)
      << message;
  EXPECT_NE(message.find("Whirl (domain ai.onnx, opset 18): 1 node, the first is 'make_c'"), std::string::npos)
      << message;
}

TEST(Onnx, AssumesShapesWhereThatIsAsked) {
  GraphWriter graph;
  graph.input("x", {"N", "3"});
  graph.node("Whirl", {"x"}, {"y"});
  graph.output("y");
  auto* shape = graph.model.mutable_graph()->mutable_output(0)->mutable_type()->mutable_tensor_type()->mutable_shape();
  shape->add_dim()->set_dim_param("N");
  shape->add_dim()->set_dim_value(17);
  const Model model =
      parse_onnx(graph.bytes(), "a.onnx", {.assume_shapes = true}).build({.training = false}, Size::full);
  EXPECT_EQ(model.program[model.result].type.text(), "f32[batch,17]");
}

// Of the newer exporter of PyTorch, which does not say that two inputs have the same batch.
TEST(Onnx, BindsTheBatchOfAllInputsWhereNamesAreMadeUp) {
  GraphWriter graph;
  graph.input("ids", {"s10", "s12"});
  graph.input("mask", {"s86", "mask_dynamic_axes_2"});
  graph.input("extra", {"classes"});
  graph.node("Add", {"ids", "mask"}, {"y"});
  graph.output("y");
  const ModelInfo info = parse_onnx(graph.bytes(), "a.onnx", {.sizes = {{"sequence", 5}}});
  EXPECT_EQ(info.usual, (program::Bindings{{"batch", 8}, {"classes", 1}, {"sequence", 5}}));
  const Model model = info.build({.training = false}, Size::full);
  EXPECT_EQ(model.program[model.result].type.text(), "f32[batch,5]");
  EXPECT_EQ(model.program[model.program.inputs[1]].type.text(), "f32[batch,5]");
}

// As a mask that all layers read.
TEST(Onnx, KeepsAConstantThatBroadcastsOnce) {
  GraphWriter graph;
  graph.input("x", {"N", "3"});
  graph.integers("row", {1, 2, 3});
  GraphWriter::set(graph.node("Cast", {"row"}, {"reals"}), "to", onnx::TensorProto::FLOAT);
  graph.node("Shape", {"x"}, {"shape"});
  graph.node("Expand", {"reals", "shape"}, {"mask"});
  graph.node("Add", {"x", "mask"}, {"a"});
  graph.node("Mul", {"a", "mask"}, {"y"});
  graph.output("y");
  const Model model = parse_onnx(graph.bytes(), "a.onnx").build({.training = false}, Size::full);
  ASSERT_EQ(model.program.state.size(), 1U);
  EXPECT_EQ(model.program[model.program.state[0]].type.text(), "f32[1,3]");
}

// ---- bad files ----

TEST(Onnx, BytesThatAreNoModelAreRefused) {
  EXPECT_THROW(parse_onnx("this is no protobuf", "a.onnx"), InputError);
  EXPECT_THROW(parse_onnx("", "a.onnx"), InputError);
  const std::string whole = linear_graph().bytes();
  EXPECT_THROW(parse_onnx(whole.substr(0, whole.size() - 5), "a.onnx"), InputError);
}

TEST(Onnx, TensorsWhoseBytesDoNotMatchAreRefused) {
  GraphWriter graph = linear_graph();
  graph.model.mutable_graph()->mutable_initializer(0)->set_dims(0, 5);
  EXPECT_NE(message_of(graph).find("tensor 'fc.weight' has 6 elements, expected 15"), std::string::npos)
      << message_of(graph);
  graph.model.mutable_graph()->mutable_initializer(0)->set_dims(0, -2);
  EXPECT_NE(message_of(graph).find("fc.weight"), std::string::npos) << message_of(graph);
  graph.model.mutable_graph()->mutable_initializer(0)->set_dims(0, INT64_MAX);
  EXPECT_NE(message_of(graph).find("fc.weight"), std::string::npos) << message_of(graph);
}

TEST(Onnx, ASumOfNoOperandsIsRefused) {
  GraphWriter graph;
  graph.input("x", {"N", "3"});
  onnx::AttributeProto* equation = graph.node("Einsum", {}, {"y"})->add_attribute();
  equation->set_name("equation");
  equation->set_type(onnx::AttributeProto::STRING);
  equation->set_s("i->");
  graph.output("y");
  EXPECT_NE(message_of(graph).find("there must be an operand"), std::string::npos) << message_of(graph);
}

// It would list a place for each element.
TEST(Onnx, ResizingToDimensionsWithoutEndIsRefused) {
  GraphWriter graph;
  graph.input("x", {"1", "1", "1099511627776", "3"});
  graph.weight("scales", {4}, {1, 1, 256, 1});
  graph.node("Resize", {"x", "", "scales"}, {"y"});
  graph.output("y");
  EXPECT_NE(message_of(graph).find("a dimension this large"), std::string::npos) << message_of(graph);
}

TEST(Onnx, CyclesAndMissingInputsAreRefused) {
  GraphWriter graph;
  graph.input("x", {"N", "3"});
  graph.node("Add", {"x", "b"}, {"a"});
  graph.node("Relu", {"a"}, {"b"});
  graph.output("b");
  EXPECT_NE(message_of(graph).find("node 'make_a' (Add) reads 'b'"), std::string::npos) << message_of(graph);
}

TEST(Onnx, NamesThatAreMadeTwiceAreRefused) {
  GraphWriter graph = linear_graph();
  graph.node("Relu", {"x"}, {"y"});
  EXPECT_NE(message_of(graph).find("'y' is made twice"), std::string::npos) << message_of(graph);
  GraphWriter weights = linear_graph();
  weights.weight("fc.bias", {2}, {0, 0});
  EXPECT_NE(message_of(weights).find("two initializers"), std::string::npos) << message_of(weights);
}

TEST(Onnx, NegativeDimensionsAreRefused) {
  GraphWriter graph;
  graph.input("x", {"N", "-3"});
  graph.node("Relu", {"x"}, {"y"});
  graph.output("y");
  EXPECT_NE(message_of(graph).find("input 'x': dimension 1 is -3"), std::string::npos) << message_of(graph);
}

TEST(Onnx, ExternalDataStaysInTheModelsFolder) {
  GraphWriter graph = linear_graph();
  onnx::TensorProto* tensor = graph.model.mutable_graph()->mutable_initializer(0);
  tensor->clear_float_data();
  tensor->set_data_location(onnx::TensorProto::EXTERNAL);
  auto* location = tensor->add_external_data();
  location->set_key("location");
  for (const char* outside : {"../secret", "/etc/passwd", "a/../../b", ""}) {
    location->set_value(outside);
    EXPECT_NE(message_of(graph).find("the model's own folder"), std::string::npos) << outside;
  }
}

TEST(Onnx, MissingExternalDataIsDrawnOnlyWhenAsked) {
  GraphWriter graph = linear_graph();
  onnx::TensorProto* tensor = graph.model.mutable_graph()->mutable_initializer(0);
  tensor->clear_float_data();
  tensor->set_data_location(onnx::TensorProto::EXTERNAL);
  auto* location = tensor->add_external_data();
  location->set_key("location");
  location->set_value("weights.bin");
  const ModelInfo info = parse_onnx(graph.bytes(), "a.onnx");
  EXPECT_EQ(info.build({.training = false}, Size::full).inits[0].kind, Init::Kind::given);
  EXPECT_THROW(train::Inference(info, {.batch = 1, .threads = 1}), InputError);
  const ModelInfo drawn = parse_onnx(graph.bytes(), "a.onnx", {.init = true});
  EXPECT_EQ(drawn.build({.training = false}, Size::full).inits[0], fan_in(3));
  EXPECT_NO_THROW(train::Inference(drawn, {.batch = 1, .threads = 1}));
}

TEST(Onnx, EstimateIsExactForATrainingStep) {
  const ModelInfo info = parse_onnx(linear_graph().bytes(), "linear.onnx", {.loss = "cross-entropy"});
  const Step step = build_whole_step(info, {.sizes = {{"batch", 4}}});
  const kernels::Lowered lowered = kernels::prepare(step.program, {.threads = 1});
  const run::Planned planned = run::plan_as_it_is(step.program, {.threads = 1});
  EXPECT_EQ(plan::estimate(lowered).peak_bytes, planned.arena_bytes());
}

// i64[2,4,1] and bool[2,4,8] have equal bytes, and the result is not made in the operand's memory.
TEST(Onnx, ComparisonsDoNotOverwriteWhatTheyBroadcast) {
  GraphWriter graph;
  graph.input("a", {"2", "1", "1"}, onnx::TensorProto::INT64);
  graph.input("rows", {"1", "4", "1"}, onnx::TensorProto::INT64);
  graph.input("columns", {"1", "1", "8"}, onnx::TensorProto::INT64);
  graph.node("Add", {"a", "rows"}, {"sum"});
  graph.node("Less", {"columns", "sum"}, {"less"});
  GraphWriter::set(graph.node("Cast", {"less"}, {"y"}), "to", onnx::TensorProto::FLOAT);
  graph.output("y");
  const ModelInfo info = parse_onnx(graph.bytes(), "less.onnx");
  run::Session session(build_step(info, {.training = false}), {.threads = 1}, machine_budget());
  run::Executor& executor = session.executor();
  executor.write<int64_t>(executor.program().find("a"), std::vector<int64_t>{2, 4});
  executor.write<int64_t>(executor.program().find("rows"), std::vector<int64_t>{0, 1, 2, 3});
  executor.write<int64_t>(executor.program().find("columns"), std::vector<int64_t>{0, 1, 2, 3, 4, 5, 6, 7});
  executor.step();
  const std::vector<float> y = executor.read<float>(executor.program().outputs[0]);
  for (int64_t i = 0; i < 64; ++i) {
    const int64_t sum = (i < 32 ? 2 : 4) + i / 8 % 4;
    EXPECT_EQ(y[static_cast<size_t>(i)], i % 8 < sum ? 1 : 0) << i;
  }
}

// Exporters write equal tensors once: here all running means.
TEST(Onnx, NormsThatShareStatisticsInTheFileTrain) {
  GraphWriter graph;
  graph.input("x", {"N", "2", "3", "3"});
  graph.weight("scale", {2}, {1, 1});
  graph.weight("zero", {2}, {0, 0});
  graph.node("BatchNormalization", {"x", "scale", "zero", "zero", "scale"}, {"once"});
  graph.node("BatchNormalization", {"once", "scale", "zero", "zero", "scale"}, {"twice"});
  GraphWriter::set(graph.node("Flatten", {"twice"}, {"y"}), "axis", 1);
  graph.output("y");
  train::Training training(parse_onnx(graph.bytes(), "norms.onnx", {.loss = "mse"}),
                           {.batch = 4, .threads = 1, .measure = false});
  const float first = training.step();
  for (int i = 0; i < 10; ++i) training.step();
  EXPECT_LT(training.step(), first);
}

// Normalisations have their parameters in f32, products in bf16.
TEST(Onnx, AWeightOfANormAndOfASumTrainsInBf16) {
  for (const bool norm_first : {true, false}) {
    GraphWriter graph;
    graph.input("x", {"N", "8"});
    graph.weight("one", {8}, std::vector<float>(8, 1));
    graph.weight("shared", {8}, std::vector<float>(8, 0));
    const auto norm = [&](const char* x) { graph.node("LayerNormalization", {x, "one", "shared"}, {"normed"}); };
    if (norm_first) norm("x");
    graph.node("Add", {norm_first ? "normed" : "x", "shared"}, {"sum"});
    if (!norm_first) norm("sum");
    graph.node("Mul", {norm_first ? "sum" : "normed", "one"}, {"y"});
    graph.output("y");
    const ModelInfo info = parse_onnx(graph.bytes(), "shared.onnx", {.loss = "mse"});
    EXPECT_EQ(info.build({.dtype = DType::bf16, .training = true}, Size::full).program.parameters.size(), 2U);
    const program::Program step = build_step(info, {.precision = DType::bf16, .sizes = {{"batch", 4}}});
    EXPECT_GT(plan::estimate(kernels::prepare(step, {.threads = 1})).peak_bytes, 0);
  }
}

// Attention over x[N,1,4,8] with something added to the scores.
GraphWriter attention_graph(float largest) {
  GraphWriter graph;
  graph.input("x", {"N", "1", "16", "8"});
  graph.weight("w", {8, 8}, std::vector<float>(64, 0.1F));
  std::vector<float> bias(16 * 16, 0.5F);
  bias[3] = largest;
  graph.weight("bias", {1, 1, 16, 16}, bias);
  graph.node("MatMul", {"x", "w"}, {"q"});
  GraphWriter::set(graph.node("Transpose", {"x"}, {"k"}), "perm", std::vector<int64_t>{0, 1, 3, 2});
  graph.node("MatMul", {"q", "k"}, {"products"});
  graph.node("Add", {"products", "bias"}, {"scores"});
  GraphWriter::set(graph.node("Softmax", {"scores"}, {"weights"}), "axis", -1);
  graph.node("MatMul", {"weights", "x"}, {"y"});
  graph.output("y");
  return graph;
}

TEST(Onnx, BiasesOfScoresAreTrainedAndMasksAreNot) {
  const ModelInfo trained = parse_onnx(attention_graph(1).bytes(), "attention.onnx", {.loss = "mse"});
  EXPECT_EQ(count_ops(trained, "attention", true), 0);  // it has no gradient of a mask
  train::Training training(trained, {.batch = 2, .threads = 1, .measure = false});
  const std::vector<float> before = training.read("bias");
  training.step();
  EXPECT_NE(training.read("bias"), before);
  const ModelInfo masked = parse_onnx(attention_graph(-3e38F).bytes(), "attention.onnx", {.loss = "mse"});
  EXPECT_EQ(count_ops(masked, "attention", true), 1);
  EXPECT_EQ(masked.build({}, Size::full).program.parameters.size(), 1U);
}

}  // namespace
}  // namespace plimsoll::models
