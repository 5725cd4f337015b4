#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <nlohmann/json.hpp>
#include <numeric>

#include "tests/cli/run.h"

namespace {

TEST(CliEstimate, PrintsTheSameFiguresAsTextAndJson) {
  const Outcome text = run_cli("estimate mlp --batch 8");
  ASSERT_EQ(text.status, 0) << text.output;
  EXPECT_TRUE(text.output.starts_with("mlp, batch 8, f32, training with adam: ")) << text.output;
  const Outcome outcome = run_cli("estimate mlp --batch 8 --json");
  ASSERT_EQ(outcome.status, 0) << outcome.output;
  const auto json = nlohmann::json::parse(outcome.output);
  EXPECT_EQ(json["model"], "mlp");
  EXPECT_EQ(json["sizes"]["batch"], 8);
  EXPECT_EQ(json["at_peak"]["parameter_bytes"], 669'706 * 4);
  EXPECT_EQ(json["at_peak"]["optimizer_state_bytes"], 2 * 669'706 * 4 + 8);
  int64_t sum = 0;
  for (const auto& bytes : json["at_peak"]) sum += bytes.get<int64_t>();
  EXPECT_EQ(json["live_peak_bytes"], sum);
  EXPECT_GE(json["peak_bytes"], json["live_peak_bytes"]);
  EXPECT_EQ(json["live_bytes"].size(), json["ops"]);
  EXPECT_EQ(json["live_bytes"][json["peak_at"]["op"].get<size_t>()], sum);
  EXPECT_EQ(json["largest"].size(), 10u);
}

TEST(CliEstimate, ChangesWithModeOptimizerAndPrecision) {
  const auto peak = [](const std::string& flags) {
    const Outcome outcome = run_cli("estimate lenet --json " + flags);
    return nlohmann::json::parse(outcome.output)["peak_bytes"].get<int64_t>();
  };
  EXPECT_LT(peak("--mode infer"), peak("--optimizer sgd"));
  EXPECT_LT(peak("--optimizer sgd"), peak("--optimizer momentum"));
  EXPECT_LT(peak("--optimizer momentum"), peak("--optimizer adamw"));
  EXPECT_LT(peak("--mode infer --precision bf16"), peak("--mode infer"));
  EXPECT_LT(peak("--precision f32"), peak("--precision f64"));
  EXPECT_LT(peak("--allow 8-bit-state"), peak(""));
  EXPECT_EQ(run_cli("estimate lenet --allow batch-norm-micro-batches").status, 2);
}

TEST(CliEstimate, SaysThatWeightsAreHeldTwiceInLowerPrecision) {
  const Outcome outcome = run_cli("estimate mlp --precision bf16");
  EXPECT_EQ(outcome.status, 0);
  EXPECT_NE(outcome.output.find("weights are kept in f32 for the update (2.55 MiB)"), std::string::npos)
      << outcome.output;
}

// The scratch of a card's kernels is another than that of the host's.
TEST(CliEstimate, TracesTheStepOnTheDeviceThatIsAsked) {
  for (const char* device : {"cpu", "cuda:h200"}) {
    const std::string path = testing::TempDir() + "estimate_trace.json";
    const Outcome outcome = run_cli(fmt::format("estimate lenet --device {} --json --chrome-trace {}", device, path));
    ASSERT_EQ(outcome.status, 0) << outcome.output;
    const auto trace = nlohmann::json::parse(std::ifstream(path));
    int64_t peak = 0;
    for (const auto& event : trace["traceEvents"]) {
      if (event["ph"] != "C") continue;
      int64_t live = 0;
      for (const auto& bytes : event["args"]) live += bytes.get<int64_t>();
      peak = std::max(peak, live);
    }
    EXPECT_EQ(nlohmann::json::parse(outcome.output)["live_peak_bytes"], peak) << device;
    std::remove(path.c_str());
  }
}

void expect_refused(const std::string& arguments, std::string_view message) {
  const Outcome outcome = run_cli("estimate " + arguments);
  EXPECT_EQ(outcome.status, 2) << arguments;
  EXPECT_EQ(outcome.output, fmt::format("plimsoll: {}\n", message));
}

TEST(CliEstimate, RefusesWhatMakesNoSense) {
  expect_refused("resnet-50",
                 "there is no model 'resnet-50'; did you mean resnet50? "
                 "`plimsoll models` lists all");
  expect_refused("mlp --batch 0", "batch 0 is out of range: mlp takes 1 to 2147483647");
  expect_refused("mlp --batch -3", "batch -3 is out of range: mlp takes 1 to 2147483647");
  expect_refused("mlp --seq 4", "mlp has no dimension 'sequence'");
  expect_refused("gpt2 --seq 1025", "sequence 1025 is out of range: gpt2 takes 1 to 1024");
  expect_refused("mlp --optimizer lyon",
                 "--optimizer is 'lyon', expected sgd, momentum, adam, adamw, lion or adafactor");
  expect_refused("mlp --mode test", "--mode is 'test', expected train or infer");
  expect_refused("mlp --precision i16", "the precision is i16, expected f64, f32, f16 or bf16, or i8 for inference");
  expect_refused(
      "mlp --precision i8",
      "the precision is i8, which is for inference alone; train in f32, bf16 or f16, and infer in i8 afterwards");
}

TEST(CliModels, ListsEveryModelWithItsParameters) {
  const Outcome outcome = run_cli("models --json");
  ASSERT_EQ(outcome.status, 0) << outcome.output;
  const auto json = nlohmann::json::parse(outcome.output);
  EXPECT_EQ(json["models"].size(), 18u);
  EXPECT_EQ(json["models"][6]["name"], "resnet50");
  EXPECT_EQ(json["models"][6]["parameters"], 25'557'032);
  EXPECT_EQ(json["models"][6]["input"], "f32[batch,3,224,224]");
  EXPECT_NEAR(json["models"][6]["forward_flops_per_sample"].get<double>(), 8.2e9, 0.1e9);
  const Outcome table = run_cli("models");
  EXPECT_NE(table.output.find("25,557,032"), std::string::npos) << table.output;
}

}  // namespace
