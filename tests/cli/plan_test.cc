#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "tests/cli/run.h"

namespace {

std::string read(const std::string& path) {
  std::stringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

void write(const std::string& path, const std::string& text) { std::ofstream(path) << text; }

class CliPlan : public testing::Test {
 protected:
  CliPlan() { std::filesystem::create_directories(folder_); }
  ~CliPlan() override { std::filesystem::remove_all(folder_); }
  std::string path(const std::string& name) const { return folder_ / name; }
  std::filesystem::path folder_ = std::filesystem::temp_directory_path() / fmt::format("plimsoll-plan-{}", getpid());
};

TEST_F(CliPlan, FindsTheLargestBatchInChunksToo) {
  const std::string model = "plan gpt2-nano --seq 64 --optimizer sgd --budget 60MiB --time-limit 60 ";
  const Outcome found = run_cli(model + "--max-batch --json");
  ASSERT_EQ(found.status, 0) << found.output;
  const auto json = nlohmann::json::parse(found.output);
  EXPECT_NE(json["largest"]["form"].get<std::string>().find("chunks"), std::string::npos) << found.output;
  EXPECT_GT(json["largest"]["batch"], json["micro_batch"]["largest"]["batch"]);
  const Outcome made = run_cli(fmt::format("{}--batch {}", model, json["largest"]["batch"].get<int64_t>()));
  EXPECT_EQ(made.status, 0) << made.output;
  // A batch that only chunks of one sample divide, which are too many.
  EXPECT_EQ(run_cli("plan mlp --batch 8191 --optimizer sgd --budget 32MiB").status, 0);
}

TEST_F(CliPlan, WritesAPlanThatHolds) {
  const std::string file = path("plan.json");
  const Outcome made = run_cli(
      "plan gpt2-nano --batch 2 --seq 64 --optimizer sgd --no-grad-accumulation --budget 46200000 --json -o " + file);
  ASSERT_EQ(made.status, 0) << made.output;
  const auto json = nlohmann::json::parse(made.output);
  EXPECT_LE(json["arena_bytes"], 46200000);
  EXPECT_LT(json["arena_bytes"], json["unplanned_bytes"]);
  EXPECT_FALSE(json["measures"].empty());
  const Outcome checked = run_cli("plan --check " + file);
  EXPECT_EQ(checked.status, 0) << checked.output;
  EXPECT_NE(checked.output.find("holds: "), std::string::npos);
  EXPECT_EQ(run_cli("plan gpt2-nano --check " + file).status, 0);
  const Outcome other = run_cli("plan lenet --check " + file);
  EXPECT_EQ(other.status, 2);
  EXPECT_NE(other.output.find("is a plan of 'gpt2-nano', not of 'lenet'"), std::string::npos) << other.output;
  std::string text = read(file);
  const size_t place = text.find("\"arena_bytes\": ");
  write(file, text.insert(place + 15, "9"));
  const Outcome altered = run_cli("plan --check " + file);
  EXPECT_EQ(altered.status, 2);
  EXPECT_NE(altered.output.find("the plan does not hold: the step takes"), std::string::npos) << altered.output;
}

TEST_F(CliPlan, TakesTheBatchInMicroBatchesUnlessThatIsRuledOut) {
  const std::string command =
      "plan lenet --batch 300 --optimizer sgd --budget 3MiB --time-limit 60 --json -o " + path("plan.json");
  const Outcome made = run_cli(command + " --no-recompute");
  ASSERT_EQ(made.status, 0) << made.output;
  const auto json = nlohmann::json::parse(made.output);
  EXPECT_GT(json["micro_batches"].size(), 1U);
  EXPECT_EQ(json["measures"][0]["kind"], "micro-batches");
  const Outcome checked = run_cli("plan --check " + path("plan.json"));
  EXPECT_EQ(checked.status, 0) << checked.output;
  EXPECT_NE(checked.output.find("the batch in "), std::string::npos) << checked.output;
  const Outcome refused = run_cli(command + " --no-grad-accumulation");
  EXPECT_EQ(refused.status, 1);
  EXPECT_EQ(nlohmann::json::parse(refused.output)["alternatives"][0]["how"].get<std::string>().substr(0, 8),
            "--batch ");
}

TEST_F(CliPlan, ComputesNothingAgainWhereThatIsRuledOut) {
  const auto plan = [](const std::string& budget, const char* option) {
    const Outcome made = run_cli(fmt::format(
        "plan mlp --batch 512 --threads 1 --optimizer sgd --no-grad-accumulation --time-limit 60 --json --budget {} {}",
        budget, option));
    return nlohmann::json::parse(made.output.substr(made.output.find('{')));
  };
  const auto recomputes = [](const nlohmann::json& made) {
    return std::ranges::any_of(made["measures"], [](const auto& measure) { return measure["kind"] == "recompute"; });
  };
  const auto with = plan("100KiB", "")["smallest_bytes"].get<int64_t>();
  const auto without = plan("100KiB", "--no-recompute")["smallest_bytes"].get<int64_t>();
  ASSERT_LT(with, without);
  const nlohmann::json again = plan(std::to_string(with), "");
  EXPECT_TRUE(again["fits"]);
  EXPECT_TRUE(recomputes(again));
  const nlohmann::json once = plan(std::to_string(without), "--no-recompute");
  EXPECT_TRUE(once["fits"]);
  EXPECT_FALSE(recomputes(once));
  const nlohmann::json refused = plan(std::to_string(with), "--no-recompute");
  EXPECT_FALSE(refused["fits"]);
  EXPECT_TRUE(std::ranges::any_of(refused["alternatives"], [](const auto& way) {
    return way["how"] == "without --no-recompute";
  })) << refused["alternatives"];
}

TEST_F(CliPlan, RefusesWithTheSmallestBudget) {
  const Outcome refused = run_cli("plan lenet --optimizer sgd --budget 500KiB --json --time-limit 60");
  ASSERT_EQ(refused.status, 1) << refused.output;
  const auto json = nlohmann::json::parse(refused.output);
  const auto smallest = json["smallest_bytes"].get<int64_t>();
  const std::string command = "plan lenet --optimizer sgd --time-limit 60 --budget ";
  EXPECT_EQ(run_cli(command + std::to_string(smallest)).status, 0);
  const Outcome below = run_cli(command + std::to_string(smallest - 4096));
  EXPECT_EQ(below.status, 1);
  EXPECT_NE(below.output.find("fits with: --batch "), std::string::npos) << below.output;
}

TEST_F(CliPlan, SpillsIntoAFolderAndSaysWhereThatWouldHelp) {
  const std::string step = "plan gpt2-nano --batch 4 --optimizer sgd --threads 1 --time-limit 20 --json --budget ";
  const int64_t smallest = nlohmann::json::parse(run_cli(step + "2MiB").output)["smallest_bytes"];
  const std::string command = step + std::to_string(smallest / 100 * 97) + " ";  // more than scratch stands in the way
  const Outcome refused = run_cli(command);
  ASSERT_EQ(refused.status, 1) << refused.output;
  EXPECT_NE(nlohmann::json::parse(refused.output)["alternatives"].dump().find("--spill-dir DIR"), std::string::npos)
      << refused.output;
  const Outcome made = run_cli(command + "--spill-dir " PLIMSOLL_SOURCE_DIR " -o " + path("plan.json"));
  ASSERT_EQ(made.status, 0) << made.output;
  const auto json = nlohmann::json::parse(made.output);
  EXPECT_GT(json["file_bytes"], 0);
  EXPECT_NE(json["measures"].dump().find("\"spill\""), std::string::npos);
  EXPECT_EQ(run_cli("plan --threads 1 --check " + path("plan.json")).status, 0);
}

TEST_F(CliPlan, KeepsPeaksInAManifest) {
  const std::string file = path("plimsoll.manifest");
  EXPECT_EQ(run_cli("plan lenet --threads 1 --manifest " + file).status, 0);
  EXPECT_EQ(run_cli("plan lenet --threads 1 --check-manifest " + file).status, 0);
  std::string text = read(file);
  const size_t place = text.find("\"unplanned_bytes\": ");
  write(file, text.erase(place + 19, 1));  // the first digit
  const Outcome grown = run_cli("plan lenet --threads 1 --check-manifest " + file);
  EXPECT_EQ(grown.status, 1);
  EXPECT_NE(grown.output.find("the peak of lenet"), std::string::npos) << grown.output;
}

TEST_F(CliPlan, HoldsStateIn8BitsOnlyByLeave) {
  const std::string command =
      "plan mlp --batch 2 --threads 1 --budget 9MiB --time-limit 60 --json ";  // f32 state alone: 5.1 MiB
  const Outcome refused = run_cli(command);
  EXPECT_EQ(refused.status, 1);
  EXPECT_NE(refused.output.find("--allow 8-bit-state"), std::string::npos) << refused.output;
  const Outcome made = run_cli(command + "--allow 8-bit-state -o " + path("plan.json"));
  ASSERT_EQ(made.status, 0) << made.output;
  EXPECT_EQ(nlohmann::json::parse(made.output)["measures"][0]["kind"], "8-bit-state");
  EXPECT_EQ(run_cli("plan --threads 1 --check " + path("plan.json")).status, 0);
  EXPECT_EQ(run_cli("plan mlp --allow something --budget 9MiB").status, 2);
}

TEST_F(CliPlan, RejectsWhatMakesNoSense) {
  EXPECT_EQ(run_cli("plan lenet --budget 0").status, 2);
  EXPECT_EQ(run_cli("plan lenet").status, 2);
  EXPECT_EQ(run_cli("plan --check /nowhere/plan.json").status, 2);
  EXPECT_EQ(run_cli("plan lenet --batch 2 --budget 1000TiB --strict").status, 2);
  EXPECT_EQ(run_cli("plan lenet --batch 2 --budget 1000TiB").status, 0);
}

}  // namespace
