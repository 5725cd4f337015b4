// What holds of all passes, on random programs and on the whole zoo.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "pass_check.h"
#include "plimsoll/models/step.h"
#include "plimsoll/program/passes/common_subexpressions.h"
#include "plimsoll/program/passes/dead_code.h"
#include "plimsoll/program/passes/fold_constants.h"
#include "plimsoll/program/passes/fold_views.h"
#include "plimsoll/program/passes/fuse_activations.h"
#include "plimsoll/program/passes/fuse_attention.h"
#include "plimsoll/program/passes/fuse_bias.h"
#include "plimsoll/program/passes/fuse_epilogues.h"
#include "plimsoll/program/passes/fuse_norms.h"
#include "plimsoll/program/passes/optimize.h"
#include "plimsoll/program/text.h"
#include "random_program.h"

namespace plimsoll::program {
namespace {

struct NamedPass {
  const char* name;
  Program (*pass)(Program);
  double tolerance = 0;
};

constexpr double kRounding = 1e-11;  // of f64 sums in another order, through all layers of a small model

const std::vector<NamedPass> kPasses = {{"eliminate_dead_code", eliminate_dead_code},
                                        {"eliminate_common_subexpressions", eliminate_common_subexpressions},
                                        {"fold_views", fold_views},
                                        {"fold_constants", fold_constants},
                                        {"fuse_activations", fuse_activations, kRounding},
                                        {"fuse_norms", fuse_norms, kRounding},
                                        {"fuse_attention", fuse_attention, kRounding},
                                        {"fuse_bias", fuse_bias, kRounding},
                                        {"fuse_epilogues", fuse_epilogues},
                                        {"simplify", simplify, kRounding},
                                        {"optimize", optimize, kRounding}};

TEST(Passes, KeepValuesAndPeakOfRandomPrograms) {
  std::map<std::string, int> changed;
  for (uint64_t seed = 0; seed < 100; ++seed) {
    for (const bool training : {false, true}) {
      const Program program = random_program(seed, training);
      for (const NamedPass& pass : kPasses) {
        SCOPED_TRACE(fmt::format("{} of seed {}, training {}", pass.name, seed, training));
        const Program after = check_pass(program, pass.pass, pass.tolerance);
        changed[pass.name] += write_program(after) != write_program(program) ? 1 : 0;
        if (testing::Test::HasFailure()) FAIL() << write_program(program);
      }
    }
  }
  for (const char* name : {"eliminate_dead_code", "eliminate_common_subexpressions", "fold_views", "fold_constants",
                           "fuse_bias", "fuse_epilogues"}) {
    EXPECT_GT(changed[name], 20) << name << " had nothing to do";
  }
}

class PassesOnZoo : public testing::TestWithParam<std::string_view> {
 protected:
  const models::ModelInfo& model() const { return models::find_model(GetParam()); }

  Program small_step(bool training, DType precision = DType::f32) const {
    models::StepOptions options = {
        .training = training, .precision = precision, .sizes = {{"batch", 3}}, .size = models::Size::small};
    if (model().usual.contains("sequence")) options.sizes["sequence"] = 5;
    return models::build_step(model(), options);
  }
};

std::vector<std::string_view> names() {
  std::vector<std::string_view> found;
  for (const models::ModelInfo& model : models::all_models()) found.push_back(model.name);
  return found;
}

std::string test_name(const testing::TestParamInfo<std::string_view>& info) {
  std::string name(info.param);
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
}

INSTANTIATE_TEST_SUITE_P(All, PassesOnZoo, testing::ValuesIn(names()), test_name);

TEST_P(PassesOnZoo, KeepValuesAndPeak) {
  for (const bool training : {true, false}) {
    const Program step = small_step(training);
    for (const NamedPass& pass : kPasses) {
      SCOPED_TRACE(fmt::format("{}, training {}", pass.name, training));
      check_pass(step, pass.pass, pass.tolerance);
    }
  }
}

TEST_P(PassesOnZoo, KeepValuesAndPeakWithWeightsThatAreCast) {
  check_pass(small_step(true, DType::bf16), optimize, kRounding);
}

TEST_P(PassesOnZoo, NeverRaiseThePeakOfTheFullModel) {
  for (const bool training : {true, false}) {
    const Program step = models::build_step(model(), {.training = training});
    EXPECT_LE(peak_bytes(optimize(step)), peak_bytes(step)) << "training " << training;
  }
}

TEST(Passes, ComeToAnEndAndAreIdempotent) {
  for (uint64_t seed = 100; seed < 120; ++seed) {
    const Program once = optimize(random_program(seed, true));
    EXPECT_EQ(write_program(optimize(once)), write_program(once));
  }
}

}  // namespace
}  // namespace plimsoll::program
