#include "plimsoll/models/zoo/zoo.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "plimsoll/base/error.h"
#include "plimsoll/models/step.h"
#include "plimsoll/plan/estimate.h"
#include "plimsoll/program/evaluate.h"
#include "plimsoll/program/text.h"
#include "plimsoll/program/verify.h"

namespace plimsoll::models {
namespace {

using program::Array;
using program::Arrays;
using program::Program;

class Zoo : public testing::TestWithParam<std::string_view> {
 protected:
  const ModelInfo& model() const { return find_model(GetParam()); }
};

std::string test_name(const testing::TestParamInfo<std::string_view>& info) {
  std::string name(info.param);
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
}

std::vector<std::string_view> names() {
  std::vector<std::string_view> found;
  for (const ModelInfo& model : all_models()) found.push_back(model.name);
  return found;
}

INSTANTIATE_TEST_SUITE_P(All, Zoo, testing::ValuesIn(names()), test_name);

constexpr double kRate = 1e-8;

program::Bindings small_sizes(const ModelInfo& model) {
  program::Bindings sizes = {{"batch", 3}};
  if (model.usual.contains("sequence")) sizes["sequence"] = 5;
  return sizes;
}

// Whole numbers below 2 (classes, tokens), the rest by the model's initialisers or small and different.
Arrays<double> small_inputs(const Program& program, const Model& model) {
  Arrays<double> given;
  uint64_t stream = 1000;
  const auto fill = [&](Value value, const Init& init) {
    Array<double> array(program[value].type.spec());
    const std::vector<double> drawn = draw(init, array.elements(), 1, stream++);
    for (size_t i = 0; i < drawn.size(); ++i) {
      is_floating(array.dtype) ? array.reals[i] = drawn[i] : array.ints[i] = drawn[i] > 0 ? 1 : 0;
    }
    given[program[value].name] = std::move(array);
  };
  for (const Value value : program.inputs) fill(value, uniform(1));
  for (size_t i = 0; i < program.parameters.size(); ++i) fill(program.parameters[i], model.inits[i]);
  for (const Value value : program.state) fill(value, constant(0));
  given["optimizer.rate"].reals = {kRate};
  return given;
}

TEST_P(Zoo, IsAValidProgramForAllSizesAndAsText) {
  const Model model = this->model().build({}, Size::full);
  program::verify(model.program);
  EXPECT_EQ(model.inits.size(), model.program.parameters.size());
  const std::string text = program::write_program(model.program);
  EXPECT_EQ(program::write_program(program::parse_program(text)), text);
}

TEST_P(Zoo, ItsStepIsAValidProgramInEveryPrecision) {
  for (const DType precision : {DType::f32, DType::bf16}) {
    for (const bool training : {true, false}) {
      const Program step = build_step(
          model(), {.training = training, .precision = precision, .sizes = small_sizes(model()), .size = Size::small});
      program::verify_bound(step);
    }
  }
}

// The sum of the squares of what a step changed in the parameters.
double squared_change(const Program& program, const Arrays<double>& before, const Arrays<double>& after) {
  double sum = 0;
  for (const Value value : program.parameters) {
    const std::vector<double>& was = before.find(program[value].name)->second.reals;
    const std::vector<double>& is = after.find(program[value].name)->second.reals;
    for (size_t i = 0; i < was.size(); ++i) sum += (is[i] - was[i]) * (is[i] - was[i]);
  }
  return sum;
}

// A small step along the gradient g takes rate * |g|^2 off the loss: all gradients of the model are right, together.
TEST_P(Zoo, LosesInAStepOfItsSmallFormWhatTheGradientSays) {
  StepOptions options = {.sizes = small_sizes(model()), .size = Size::small};
  options.train.optimizer = program::Optimizer::sgd;
  const Program step = build_step(model(), options);
  Arrays<double> given = small_inputs(step, model().build({}, Size::small));
  const auto first = program::evaluate<double>(step, given);
  const double predicted = squared_change(step, given, first.after) / kRate;
  for (const auto& [name, array] : first.after) given[name] = array;
  const auto second = program::evaluate<double>(step, given);
  const double lost = first.outputs.begin()->second.reals[0] - second.outputs.begin()->second.reals[0];
  EXPECT_GT(predicted, 0);
  EXPECT_NEAR(lost, predicted, 0.01 * predicted);
}

TEST_P(Zoo, InferenceTakesLessThanTraining) {
  const auto peak = [&](bool training) {
    return plan::estimate(build_step(model(), {.training = training})).peak_bytes;
  };
  EXPECT_LT(peak(false), peak(true));
}

TEST(ZooCounts, AreThePublishedOnes) {
  const std::map<std::string_view, int64_t> published = {
      {"resnet18", 11'689'512},    {"resnet50", 25'557'032},   {"vgg16", 138'357'544},     {"mobilenet_v2", 3'504'872},
      {"densenet121", 7'978'856},  {"vit_b_16", 86'567'656},   {"gpt2", 124'439'808},      {"gpt2-medium", 354'823'168},
      {"gpt2-large", 774'030'080}, {"gpt2-xl", 1'557'611'200}, {"bert_base", 109'514'298}, {"lenet", 61'706},
  };
  for (const auto& [name, count] : published) {
    EXPECT_EQ(parameter_count(find_model(name).build({}, Size::full)), count) << name;
  }
}

TEST(ZooNames, AreThoseOfPyTorch) {
  const Program resnet = find_model("resnet50").build({}, Size::full).program;
  EXPECT_EQ(resnet[resnet.find("layer3.0.downsample.0.weight")].type.text(), "f32[1024,512,1,1]");
  EXPECT_EQ(resnet[resnet.find("layer4.2.bn3.running_var")].type.text(), "f32[2048]");
  const Program mobilenet = find_model("mobilenet_v2").build({}, Size::full).program;
  EXPECT_EQ(mobilenet[mobilenet.find("features.2.conv.1.0.weight")].type.text(), "f32[96,1,3,3]");
  const Program vgg = find_model("vgg16").build({}, Size::full).program;
  EXPECT_TRUE(vgg.find("features.28.weight"));
  const Program vit = find_model("vit_b_16").build({}, Size::full).program;
  EXPECT_TRUE(vit.find("encoder.layers.encoder_layer_11.self_attention.in_proj_weight"));
}

TEST(ZooSizes, TakeWhatIsAskedForInPlaceOfTheUsual) {
  EXPECT_EQ(bindings(find_model("gpt2"), {{"batch", 2}}), (program::Bindings{{"batch", 2}, {"sequence", 1024}}));
}

std::string error_of(const std::function<void()>& act) {
  try {
    act();
  } catch (const ArgumentError& error) {
    return error.what();
  }
  return "no error";
}

TEST(ZooErrors, SuggestModelsOfSimilarNames) {
  EXPECT_EQ(error_of([] { find_model("resnet51"); }),
            "there is no model 'resnet51'; did you mean resnet18, resnet50? `plimsoll models` lists all");
  EXPECT_EQ(error_of([] { find_model("zebra"); }), "there is no model 'zebra'; `plimsoll models` lists all");
}

TEST(ZooErrors, NameTheSizeThatIsOutOfRange) {
  EXPECT_EQ(error_of([] {
              bindings(find_model("gpt2"), {{"sequence", 2048}});
            }),
            "sequence 2048 is out of range: gpt2 takes 1 to 1024");
  EXPECT_EQ(error_of([] {
              bindings(find_model("p13"), {{"batch", 0}});
            }),
            "batch 0 is out of range: p13 takes 1 to 2147483647");
  EXPECT_EQ(error_of([] { bindings(find_model("p13"), {{"sequence", 8}}); }), "p13 has no dimension 'sequence'");
}

TEST(ZooErrors, APrecisionMustBeFloatingOrI8) {
  EXPECT_EQ(error_of([] { build_step(find_model("mlp"), {.precision = DType::i16}); }),
            "the precision is i16, expected f64, f32, f16 or bf16, or i8 for inference");
}

}  // namespace
}  // namespace plimsoll::models
