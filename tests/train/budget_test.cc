// `plimsoll train --budget`: what it refuses, and that the kernel agrees with what it keeps to.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "plimsoll/base/bytes.h"
#include "tests/memory/memory_group.h"
#include "tests/memory/sanitized.h"

namespace plimsoll {
namespace {

struct Outcome {
  int status = -1;
  std::string output;  // stdout and stderr together
};

Outcome outcome_of(const std::string& command) {
  Outcome outcome;
  std::FILE* pipe = popen(command.c_str(), "r");
  char buffer[4096];
  while (const size_t got = std::fread(buffer, 1, sizeof(buffer), pipe)) outcome.output.append(buffer, got);
  outcome.status = WEXITSTATUS(pclose(pipe));
  return outcome;
}

Outcome train(const std::string& arguments) {
  return outcome_of(fmt::format("{} train {} --no-measure 2>&1", PLIMSOLL_BINARY, arguments));
}

nlohmann::json json_of(const std::string& text) {
  return nlohmann::json::parse(text.substr(std::min(text.size(), text.find('{'))), nullptr, false);
}

// What a process of its own prints that trains so many steps, in a memory cgroup whose limit is its budget; nothing,
// with a reason to skip, where there are no such groups.
struct InGroup {
  std::string skipped;
  nlohmann::json json;
  int64_t group_peak_bytes = 0;
};

InGroup train_in_group(const std::string& model, const std::string& budget, int steps,
                       const std::string& cache = testing::TempDir()) {
  const auto parent = MemoryGroup::folder_for_groups();
  if (!parent) return {"no memory cgroups on this machine", {}};
  const MemoryGroup group(*parent, parse_bytes(budget));
  if (!group.works()) return {"no memory cgroup can be made in " + parent->string(), {}};
  const std::string output = fmt::format("{}plimsoll_in_a_cgroup_{}.json", testing::TempDir(), getpid());
  const std::string command =
      fmt::format("XDG_CACHE_HOME={} exec {} train {} --budget {} --steps {} --json 2>/dev/null >{}", cache,
                  PLIMSOLL_BINARY, model, budget, steps, output);
  constexpr int kNotEntered = 77;
  const pid_t child = fork();
  if (child == 0) {
    if (group.enter()) execl("/bin/sh", "sh", "-c", command.c_str(), nullptr);
    _exit(kNotEntered);
  }
  int status = 0;
  waitpid(child, &status, 0);
  EXPECT_FALSE(WIFSIGNALED(status)) << "killed by signal " << WTERMSIG(status);
  if (WEXITSTATUS(status) == kNotEntered) return {"the group cannot be entered", {}};
  EXPECT_EQ(WEXITSTATUS(status), 0);
  std::ifstream file(output);
  InGroup found{"", nlohmann::json::parse(file, nullptr, false), group.peak_bytes()};
  std::remove(output.c_str());
  return found;
}

void expect_within(const InGroup& found, const char* name, const std::string& budget, size_t steps) {
  ASSERT_TRUE(found.json.is_object());
  EXPECT_EQ(found.json["steps"].size(), steps);
  EXPECT_LE(found.json["predicted_peak_bytes"], parse_bytes(budget));
  EXPECT_LE(found.json["process_peak_bytes"], found.json["predicted_peak_bytes"]);
  EXPECT_LE(found.group_peak_bytes, found.json["predicted_peak_bytes"]);
  testing::Test::RecordProperty("predicted_bytes", std::to_string(found.json["predicted_peak_bytes"].get<int64_t>()));
  testing::Test::RecordProperty("cgroup_peak_bytes", std::to_string(found.group_peak_bytes));
  fmt::print("{}: predicted {}, the process took {}, the group held {} at most of {}\n", name,
             format_bytes(found.json["predicted_peak_bytes"]), format_bytes(found.json["process_peak_bytes"]),
             format_bytes(found.group_peak_bytes), budget);
}

struct Case {
  const char* name;
  const char* model;
  const char* budget;
  int steps = 3;
};

class InACgroup : public testing::TestWithParam<Case> {};

INSTANTIATE_TEST_SUITE_P(Train, InACgroup,
                         testing::Values(Case{"p14", "p14 --batch 8", "80MiB"},
                                         Case{"resnet18", "resnet18 --batch 2 --allow batch-norm-micro-batches",
                                              "240MiB"},
                                         Case{"gpt2_nano", "gpt2-nano --batch 8 --seq 32", "100MiB"},
                                         Case{"p11", "p11 --batch 256", "2GiB", 1}),  // half a minute a step
                         [](const auto& tested) { return std::string(tested.param.name); });

TEST_P(InACgroup, TrainsAndIsNotKilled) {
  if (kSanitized) GTEST_SKIP() << "a sanitizer's own memory would not fit in the group";
  const auto& [name, model, budget, steps] = GetParam();
  const InGroup found = train_in_group(model, budget, steps);
  if (!found.skipped.empty()) GTEST_SKIP() << found.skipped;
  expect_within(found, name, budget, static_cast<size_t>(steps));
}

int64_t smallest_budget(const std::string& model) {
  const std::string refused = train(model + " --budget 1MiB --steps 1").output;
  const size_t place = refused.find(" (", refused.find("smallest budget:")) + 2;
  std::string digits = refused.substr(place, refused.find(" bytes", place) - place);
  std::erase(digits, ',');
  return std::stoll(digits);
}

// Timing kernels, planning and running: none may take more than the run that a refusal promised to fit.
class AtTheSmallestBudget : public testing::TestWithParam<Case> {};

INSTANTIATE_TEST_SUITE_P(Train, AtTheSmallestBudget,
                         testing::Values(Case{"lenet", "lenet --batch 60 --optimizer momentum", ""},
                                         Case{"gpt2_nano", "gpt2-nano --batch 4 --seq 32", ""},
                                         Case{"resnet18", "resnet18 --batch 2 --allow 8-bit-state", ""},
                                         Case{"resnet50", "resnet50 --batch 1 --optimizer sgd", ""}),
                         [](const auto& tested) { return std::string(tested.param.name); });

TEST_P(AtTheSmallestBudget, IsNotKilledWithAnEmptyCostCacheNorAWarmOne) {
  if (kSanitized) GTEST_SKIP() << "a sanitizer's own memory would not fit in the group";
  const std::string cache = fmt::format("{}plimsoll_cache_{}", testing::TempDir(), getpid());
  const std::string budget = std::to_string(smallest_budget(GetParam().model));
  for (const char* state : {"empty", "warm"}) {
    SCOPED_TRACE(state);
    const InGroup found = train_in_group(GetParam().model, budget, 1, cache);
    if (!found.skipped.empty()) GTEST_SKIP() << found.skipped;
    expect_within(found, GetParam().name, budget, 1);
  }
  std::filesystem::remove_all(cache);
}

// What the step holds at once without a file is more than that, whatever is computed again.
TEST(Spilling, FitsWhereRecomputingDoesNot) {
  if (kSanitized) GTEST_SKIP() << "a sanitizer's own memory would not fit in the budget";
  const std::string model = "unet --batch 1 --optimizer sgd";
  EXPECT_EQ(train(model + " --budget 275MiB --steps 1").status, 1);
  const InGroup found = train_in_group(model + " --spill-dir " PLIMSOLL_SOURCE_DIR, "275MiB", 2);
  if (!found.skipped.empty()) GTEST_SKIP() << found.skipped;
  expect_within(found, "unet", "275MiB", 2);
  EXPECT_GT(found.json["spilled_bytes"], 0);
  EXPECT_NE(found.json["measures"].dump().find("\"spill\""), std::string::npos);
}

TEST(Spilling, IsRefusedWhereTheFolderCannotHoldAFile) {
  for (const char* folder : {"/no/such/folder", "/proc"}) {
    const Outcome outcome = train(fmt::format("mlp --budget 1GiB --steps 1 --spill-dir {}", folder));
    EXPECT_EQ(outcome.status, 2) << folder;
    EXPECT_NE(outcome.output.find(folder), std::string::npos) << outcome.output;
  }
}

TEST(CliBudget, TakesTheBatchInMicroBatchesAndGetsTheSameLoss) {
  const Outcome whole = train(fmt::format("lenet --batch {} --budget 1GiB --steps 2 --json", kSanitized ? 30 : 300));
  const Outcome parts = train("lenet --batch 300 --budget 35MiB --steps 2 --json");
  ASSERT_EQ(whole.status, 0) << whole.output;
  if (kSanitized) return;  // whose process takes more than that
  ASSERT_EQ(parts.status, 0) << parts.output;
  const auto one = json_of(whole.output);
  const auto many = json_of(parts.output);
  EXPECT_EQ(one["micro_batches"].size(), 1u);
  EXPECT_GT(many["micro_batches"].size(), 1u);
  for (size_t i = 0; i < 2; ++i) {
    EXPECT_NEAR(many["steps"][i]["loss"].get<double>(), one["steps"][i]["loss"].get<double>(), 1e-5);
  }
}

TEST(CliBudget, RefusesWhatCannotFitAndSaysWhatWould) {
  const Outcome outcome = train("resnet18 --batch 32 --budget 64MiB --steps 1");
  EXPECT_EQ(outcome.status, 1);
  EXPECT_NE(outcome.output.find("resnet18 does not fit in 64.00 MiB"), std::string::npos) << outcome.output;
  EXPECT_NE(outcome.output.find("smallest budget:"), std::string::npos) << outcome.output;
  EXPECT_NE(outcome.output.find("batch_norm %bn1.batch_norm takes statistics over the whole batch"), std::string::npos)
      << outcome.output;
  if (kSanitized) GTEST_SKIP() << "a sanitizer is too slow for the time that ways are looked for";
  const Outcome helped = train("resnet18 --batch 32 --budget 320MiB --optimizer sgd --steps 1");
  for (const char* way : {"fits with: ", "--batch ", "--precision bf16 (", "--allow batch-norm-micro-batches ("}) {
    EXPECT_NE(helped.output.find(way), std::string::npos) << way << "\n" << helped.output;
  }
  EXPECT_EQ(train("mlp --budget 1MiB --steps 1").status, 1);
}

TEST(CliBudget, HoldsStateIn8BitsWhereThatIsAllowedAndNothingElseFits) {
  if (kSanitized) GTEST_SKIP() << "a sanitizer's own memory would not fit in the budget";
  const std::string model = "gpt2-nano --batch 2 --seq 32 --steps 4 --no-measure ";
  const auto wide = json_of(train(model + "--budget 1GiB --allow 8-bit-state --json").output);
  const auto quantized = json_of(train(model + "--budget 70MiB --allow 8-bit-state --json").output);
  EXPECT_TRUE(wide["measures"].empty());
  ASSERT_FALSE(quantized["measures"].empty());
  EXPECT_EQ(quantized["measures"][0]["kind"], "8-bit-state");
  EXPECT_GT(quantized["measures"][0]["saved_bytes"], 14 * kMiB);
  for (size_t i = 0; i < 4; ++i) {
    EXPECT_NEAR(quantized["steps"][i]["loss"].get<double>(), wide["steps"][i]["loss"].get<double>(), 0.01);
  }
}

TEST(CliBudget, RefusesWaysToFitWithoutABudget) {
  for (const std::string way :
       {"--budget-file b", "--spill-dir .", "--allow batch-norm-micro-batches", "--strict", "--no-measure"}) {
    const Outcome outcome = train("lenet --steps 1 " + way);
    EXPECT_EQ(outcome.status, 2) << way;
    EXPECT_NE(outcome.output.find("give one with --budget"), std::string::npos) << outcome.output;
  }
}

TEST(CliBudget, RunsFromTheSmallestBudgetOnAndNotInAPageLess) {
  if (kSanitized) GTEST_SKIP() << "a sanitizer's own memory grows as it likes";
  constexpr int64_t kPage = 4096;
  for (const std::string model : {"lenet --batch 64 --precision f16", "gpt2-nano --batch 4 --seq 32",
                                  "mlp --batch 512 --optimizer sgd --precision bf16"}) {
    const int64_t smallest = smallest_budget(model);
    const auto status_at = [&](int64_t budget) {
      return train(fmt::format("{} --budget {} --steps 1", model, budget)).status;
    };
    EXPECT_EQ(status_at(smallest - kPage), 1) << model << " in " << smallest - kPage;
    for (const int64_t more : {int64_t{0}, smallest / 50}) {
      EXPECT_EQ(status_at(smallest + more), 0) << model << " in " << smallest + more;
    }
    EXPECT_EQ(smallest_budget(model), smallest) << model;
  }
}

TEST(CliBudget, PlansAgainWhenItsBudgetIsLoweredBetweenSteps) {
  if (kSanitized) GTEST_SKIP() << "a sanitizer's own memory would not fit in the lower budget";
  const std::string command = "lenet --batch 300 --optimizer momentum --threads 1 --steps 20 --json --budget 1GiB";
  const std::string file = testing::TempDir() + "plimsoll_budget";
  const std::string lower = fmt::format("sleep 0.2; echo 36MiB > {}", file);
  const std::string run = fmt::format("echo 1GiB > {}; ({}) & TMPDIR={} {} train {} --no-measure --budget-file {} 2>&1",
                                      file, lower, PLIMSOLL_SOURCE_DIR, PLIMSOLL_BINARY, command, file);
  const Outcome lowered = outcome_of(run);
  ASSERT_EQ(lowered.status, 0) << lowered.output;
  const auto one = json_of(train(command).output);
  const auto other = json_of(lowered.output);
  EXPECT_EQ(other["budget_bytes"], 36 * kMiB);
  EXPECT_GT(other["micro_batches"].size(), one["micro_batches"].size());
  ASSERT_EQ(other["steps"].size(), 20u);
  for (size_t i = 0; i < 20; ++i) {
    EXPECT_NEAR(other["steps"][i]["loss"].get<double>(), one["steps"][i]["loss"].get<double>(), 1e-4) << i;
  }
  std::remove(file.c_str());
}

TEST(CliBudget, TellsWhatMakesNoSense) {
  EXPECT_EQ(train("mlp --budget 0 --steps 1").status, 2);
  EXPECT_EQ(train("mlp --budget lots --steps 1").status, 2);
  EXPECT_EQ(train("mlp --budget 1GiB --allow magic --steps 1").status, 2);
  const Outcome told = train("mlp --batch 4 --budget 900TiB --steps 1");
  EXPECT_EQ(told.status, 0) << told.output;
  EXPECT_NE(told.output.find("but this machine has"), std::string::npos) << told.output;
  EXPECT_EQ(train("mlp --batch 4 --budget 900TiB --strict --steps 1").status, 2);
}

TEST(CliBudget, EndsCleanlyWhenInterrupted) {
  const std::filesystem::path folder = PLIMSOLL_SOURCE_DIR "/build/spill_test";  // on a disk
  std::filesystem::create_directories(folder);
  const auto status_after = [&](const char* signal) {
    const std::string run =
        fmt::format("{} train lenet --batch 64 --steps 1000000 --no-measure --budget 1GiB --spill-dir {}",
                    PLIMSOLL_BINARY, folder.string());
    // A shell starts what runs in the background with SIGINT ignored, and what is ignored stays so.
    const std::string script =
        fmt::format("env --default-signal=INT {} >/dev/null 2>&1 & p=$!; sleep 1; kill -{} $p; wait $p", run, signal);
    return WEXITSTATUS(std::system(script.c_str()));
  };
  EXPECT_EQ(status_after("INT"), 130);
  EXPECT_EQ(status_after("TERM"), 143);
  EXPECT_EQ(status_after("KILL"), 137);
  EXPECT_TRUE(std::filesystem::is_empty(folder));
  std::filesystem::remove(folder);
}

}  // namespace
}  // namespace plimsoll
