// The verbs that compute: train and run.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <set>
#include <thread>

#include "tests/cli/machine.h"
#include "tests/cli/run.h"

namespace {

using Json = nlohmann::json;

// What follows the progress.
Json json_of(const std::string& arguments) {
  const Outcome outcome = run_cli(arguments + " --json");
  EXPECT_EQ(outcome.status, 0) << outcome.output;
  return Json::parse(outcome.output.substr(outcome.output.find('{')));
}

std::set<std::string> keys_of(const Json& json) {
  std::set<std::string> keys;
  for (const auto& [key, value] : json.items()) keys.insert(key);
  return keys;
}

TEST(CliTrain, TellsEveryStepAsJson) {
  Json json = json_of("train lenet --batch 4 --steps 3 --threads 1");
  json.erase("cgroup_peak_bytes");  // where there is one
  EXPECT_EQ(keys_of(json),
            (std::set<std::string>{"model", "sizes", "optimizer", "precision", "threads", "predicted_peak_bytes",
                                   "arena_bytes", "process_peak_bytes", "median_step_s", "steps"}));
  EXPECT_EQ(json["sizes"]["batch"], 4);
  EXPECT_EQ(json["threads"], 1);
  EXPECT_EQ(json["arena_bytes"], json["predicted_peak_bytes"]);
  EXPECT_GT(json["process_peak_bytes"], json["arena_bytes"]);
  ASSERT_EQ(json["steps"].size(), 3U);
  EXPECT_LT(json["steps"][2]["loss"], json["steps"][0]["loss"]);
  EXPECT_GT(json["steps"][0]["seconds"], 0);
}

TEST(CliTrain, GivesTheSameLossesTwiceAndOthersForAnotherSeed) {
  const auto losses = [](const std::string& flags) {
    const Json trained = json_of("train mlp --batch 3 --steps 2 " + flags);
    std::vector<float> found;
    for (const Json& step : trained["steps"]) found.push_back(step["loss"]);
    return found;
  };
  EXPECT_EQ(losses("--seed 7"), losses("--seed 7"));
  EXPECT_NE(losses("--seed 7"), losses("--seed 8"));
}

TEST(CliTrain, TakesLowerPrecisions) {
  const float wide = json_of("train lenet --batch 4 --steps 3")["steps"][2]["loss"];
  for (const char* precision : {"bf16", "f16"}) {
    const Json json = json_of(std::string("train lenet --batch 4 --steps 3 --precision ") + precision);
    EXPECT_EQ(json["precision"], precision);
    EXPECT_EQ(json["arena_bytes"], json["predicted_peak_bytes"]);
    EXPECT_NEAR(json["steps"][2]["loss"], wide, 0.05F * wide);
    EXPECT_EQ(json_of(std::string("run lenet --batch 2 --precision ") + precision)["outputs"][0]["type"],
              std::string(precision) + "[2,10]");
  }
}

TEST(CliTrain, PrintsPredictedAndMeasuredPeaks) {
  const Outcome outcome = run_cli("train mlp --batch 3 --steps 2");
  ASSERT_EQ(outcome.status, 0) << outcome.output;
  for (const char* part : {"step 2  loss ", "mlp: 2 steps on ", "  predicted ", "  arena ", "  process "}) {
    EXPECT_NE(outcome.output.find(part), std::string::npos) << part << "\n" << outcome.output;
  }
}

TEST(CliRun, TellsWhatCameOut) {
  const Json json = json_of("run lenet --batch 2 --times 2");
  EXPECT_EQ(keys_of(json), (std::set<std::string>{"model", "sizes", "precision", "threads", "predicted_peak_bytes",
                                                  "arena_bytes", "process_peak_bytes", "least_run_s", "outputs"}));
  EXPECT_EQ(json["arena_bytes"], json["predicted_peak_bytes"]);
  ASSERT_EQ(json["outputs"].size(), 1U);
  EXPECT_EQ(json["outputs"][0]["type"], "f32[2,10]");
  EXPECT_GE(json["outputs"][0]["largest"], 0);
}

TEST(CliRun, ComparesPrecisionsInBytesTimeAndResults) {
  const Json json = json_of("run mlp --batch 2 --times 1 --precision i8 --compare f32");
  EXPECT_EQ(json["arena_bytes"], json["predicted_peak_bytes"]);
  EXPECT_EQ(json["compared"]["precision"], "f32");
  EXPECT_EQ(json["compared"]["arena_bytes"], json["compared"]["predicted_peak_bytes"]);
  // Machines that do not multiply bytes widen up to 1 MiB of weights at a time.
  const int64_t widened = machine_multiplies_bytes() ? 0 : 1 << 20;
  EXPECT_LT(json["arena_bytes"], json["compared"]["arena_bytes"].get<int64_t>() / 3 + widened);
  const Json& output = json["outputs"][0];
  EXPECT_GT(output["relative_error"], 0);
  EXPECT_LT(output["relative_error"], 0.05);
  EXPECT_GT(output["relative_error_of_differences"], output["relative_error"]);
  EXPECT_EQ(json["arena_bytes"], json_of("estimate mlp --batch 2 --mode infer --precision i8")["peak_bytes"]);
  const Outcome text = run_cli("run mlp --batch 1 --times 1 --precision i8 --compare f32");
  EXPECT_EQ(text.status, 0);
  EXPECT_NE(text.output.find("% off\n"), std::string::npos) << text.output;
}

TEST(CliRun, TheSamePrecisionDiffersByNothing) {
  const Json json = json_of("run lenet --batch 1 --times 1 --compare f32");
  EXPECT_EQ(json["outputs"][0]["relative_error"], 0);
  EXPECT_FALSE(json["outputs"][0].contains("relative_error_of_differences"));  // of one sample
}

struct Refused {
  const char* arguments;
  const char* says;
};

// libgomp tells what it read when it was loaded.
int times_told(const std::string& environment, const std::string& setting) {
  const Outcome outcome =
      run_cli("train mlp --batch 2 --steps 1 --threads 1", environment + " OMP_DISPLAY_ENV=verbose");
  EXPECT_EQ(outcome.status, 0) << outcome.output;
  int times = 0;
  for (size_t at = outcome.output.find(setting); at != std::string::npos; at = outcome.output.find(setting, at + 1)) {
    ++times;
  }
  return times;
}

TEST(CliTrain, ThreadsThatWaitSpinShortlyUnlessTheUserChose) {
  const std::string none = "env -u OMP_WAIT_POLICY -u GOMP_SPINCOUNT";
  EXPECT_EQ(times_told(none, "GOMP_SPINCOUNT = '1000'"), 1);
  EXPECT_EQ(times_told(none + " GOMP_SPINCOUNT=77", "GOMP_SPINCOUNT = '77'"), 1);
  EXPECT_EQ(times_told(none + " OMP_WAIT_POLICY=active", "GOMP_SPINCOUNT = '1000'"), 0);
  EXPECT_EQ(times_told(none + " OMP_WAIT_POLICY=active", "OMP_WAIT_POLICY = 'ACTIVE'"), 1);
}

// At the smallest budget that a refusal names a model runs, and stays within it.
TEST(CliRun, FitsTheSmallestBudgetThatARefusalNames) {
  const std::string run = "run lenet --batch 4 --threads 1 --times 1 --json --budget ";
  const Outcome refused = run_cli(run + "1MiB");
  ASSERT_EQ(refused.status, 1) << refused.output;
  const Json why = Json::parse(refused.output.substr(refused.output.find('{')));
  EXPECT_EQ(why["fits"], false);
  const int64_t smallest = why["smallest_budget_bytes"];
  const Outcome fitted = run_cli(run + std::to_string(smallest));
  ASSERT_EQ(fitted.status, 0) << fitted.output;
  const Json json = Json::parse(fitted.output.substr(fitted.output.find('{')));
  EXPECT_LE(json["process_peak_bytes"].get<int64_t>(), smallest);
  EXPECT_LE(json["predicted_peak_bytes"].get<int64_t>(), smallest);
  EXPECT_EQ(json["outputs"].size(), 1U);
}

TEST(CliTrain, RefusesBadArgumentsAndSaysWhatIsExpected) {
  const std::string most = std::to_string(std::thread::hardware_concurrency());
  const std::string above = "train mlp --threads " + std::to_string(std::thread::hardware_concurrency() + 1);
  const std::string told = "this machine has " + most;
  for (const Refused& refused :
       {Refused{"train", "MODEL is required"},
        {"train nonsense", "nonsense"},
        {"train mlp --steps 0", "--steps is 0, expected at least 1"},
        {"train mlp --precision i8", "i8, which is for inference alone; train in f32"},
        {"run mlp --compare i7", "i7"},
        {"run mlp --budget 1GiB --compare bf16", "--compare runs the model twice"},
        {"run mlp --strict", "give one with --budget"},
        {"train mlp --batch 0", "batch"},
        {"train mlp --optimizer lyon", "expected sgd, momentum, adam, adamw, lion or adafactor"},
        {"train mlp --no-recompute", "--no-recompute says how to fit a budget"},
        {"train mlp --precision i16", "expected f64, f32, f16 or bf16"},
        {"train mlp --threads 0", "--threads is 0, expected 1 to"},
        {"train mlp --threads -1", "--threads is -1, expected 1 to"},
        {above.c_str(), told.c_str()},
        {"train mlp --take 5", "--take is of --data: give that, too"},
        {"train mlp --flip", "--flip is of --data"},
        {"train mlp --eval-data x", "--eval-data is of --data"},
        {"train mlp --data x --patience 2", "--patience is of --eval-data"},
        {"train mlp --data x --shuffle-buffer 4 --no-shuffle", "leave one of them out"},
        {"train mlp --every 5", "--every is of --checkpoint"},
        {"train mlp --keep 2", "--keep is of --checkpoint"},
        {"train mlp --resume", "--resume is of --checkpoint"},
        {"train mlp --checkpoint x --keep 0", "--keep: expected 1 to"},
        {"train mlp --checkpoint x --every -5", "--every: expected 0 to"},
        {"train mlp --warmup -1", "--warmup: expected 0 to"},
        {"train mlp --schedule step", "--schedule step is of --drop-every"},
        {"train mlp --drop-every 3", "--drop-every is of --schedule step"},
        {"train mlp --bucket 5MiB", "--bucket is for several ranks"},
        {"train mlp --batch 32 --accumulate 1152921504606846976", "batches of 32 are too many"},
        {"train mlp --save /nonexistent/w.safetensors", "'/nonexistent/w.safetensors' cannot be written"},
        {"train mlp --profile /nonexistent/p.json", "'/nonexistent/p.json' cannot be written"},
        {"run mlp --times 0", "--times is 0, expected at least 1"},
        {"run mlp --threads 0", "--threads is 0, expected 1 to"}}) {
    const Outcome outcome = run_cli(refused.arguments);
    EXPECT_EQ(outcome.status, 2) << refused.arguments << "\n" << outcome.output;
    EXPECT_NE(outcome.output.find(refused.says), std::string::npos) << refused.arguments << "\n" << outcome.output;
  }
}

}  // namespace
