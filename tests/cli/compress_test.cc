#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "tests/cli/run.h"
#include "tests/in_folder.h"

namespace {

using plimsoll::TemporaryFolder;
using plimsoll::operator/;

nlohmann::json json_of(const std::string& arguments) {
  const Outcome outcome = run_cli(arguments);
  EXPECT_EQ(outcome.status, 0) << outcome.output;
  return nlohmann::json::parse(outcome.output.substr(outcome.output.find('{')));  // after what is told on the way
}

TEST(CliCompress, WritesAFileThatOtherVerbsRun) {
  const TemporaryFolder folder("compress");
  const std::string file = folder / "small.safetensors";
  const auto json =
      json_of("compress lenet --batch 4 --threads 1 --quantize i8 --prune 0.5 --structured --json -o " + file);
  EXPECT_LT(json["after"]["weight_bytes"], json["before"]["weight_bytes"]);
  EXPECT_EQ(json["pruned_channels"], 3 + 8 + 60 + 42);
  const auto run = json_of("run lenet --batch 4 --threads 1 --times 1 --precision i8 --json --weights " + file);
  EXPECT_EQ(run["arena_bytes"], json["after"]["arena_bytes"]);
  EXPECT_EQ(run_cli("run mlp --batch 4 --threads 1 --weights " + file).status, 2) << "a file of another model";
}

TEST(CliCompress, SaysThatZerosSaveNothing) {
  const Outcome outcome = run_cli("compress lenet --batch 4 --threads 1 --prune 0.3");
  EXPECT_EQ(outcome.status, 0);
  EXPECT_NE(outcome.output.find("saves neither memory nor time"), std::string::npos) << outcome.output;
}

TEST(CliCompress, RefusesWhatMakesNoSense) {
  EXPECT_EQ(run_cli("compress lenet").status, 2);
  EXPECT_EQ(run_cli("compress lenet --quantize i2").status, 2);
  EXPECT_EQ(run_cli("compress lenet --quantize i8 --structured").status, 2);
  EXPECT_EQ(run_cli("compress lenet --quantize i8 --group 16").status, 2);
  EXPECT_EQ(run_cli("estimate lenet --by layer").status, 2);
}

TEST(CliEstimate, ByModuleHasRowsDownToTheDepth) {
  const auto json = json_of("estimate resnet18 --batch 1 --by module --depth 1 --json");
  for (const auto& row : json["modules"]) EXPECT_EQ(row["depth"], 1) << row;
  EXPECT_EQ(json["total"]["parameters"], 11'689'512);
}

TEST(CliProfile, HasPredictedAndMeasuredTimesOfTrainingAndInference) {
  const TemporaryFolder folder("profile");
  for (const std::string verb :
       {"train lenet --steps 3", "train lenet --steps 3 --no-measure --budget 1GiB", "run lenet --times 3"}) {
    const std::string file = folder / "profile.json";
    const Outcome outcome = run_cli(fmt::format("{} --batch 8 --threads 1 --profile {}", verb, file));
    ASSERT_EQ(outcome.status, 0) << outcome.output;
    const auto told = nlohmann::json::parse(std::ifstream(file))["plimsoll"];
    EXPECT_GT(told["predicted_step_s"], 0) << verb;
    EXPECT_GT(told["measured_ops_s"], 0) << verb;
    EXPECT_FALSE(told["modules"].empty());
    EXPECT_FALSE(told["categories"].empty());
  }
}

}  // namespace
