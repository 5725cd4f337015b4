// Cards that are not there: what can be said and planned of them, and that it is what a real one took.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "plimsoll/base/bytes.h"
#include "plimsoll/base/error.h"
#include "plimsoll/device/cuda/cards.h"
#include "plimsoll/device/device.h"
#include "plimsoll/models/step.h"
#include "plimsoll/plan/plan.h"
#include "plimsoll/program/passes/dead_code.h"
#include "plimsoll/program/verify.h"

namespace plimsoll {
namespace {

kernels::Lowered prepared(const std::string& device, std::string_view name, const models::StepOptions& options) {
  const models::Step step = models::build_whole_step(models::find_model(name), options);
  return kernels::prepare(step.program, {.device = device, .threads = 1});
}

TEST(PaperCard, IsKnownByName) {
  for (const std::string& name : cuda::card_names()) {
    device::Device& card = device::find_device("cuda:" + name);
    EXPECT_FALSE(card.traits().runs) << name;
    EXPECT_GT(card.budget().bytes, 16 * kGiB) << name;
    EXPECT_GT(card.rates()->flops_per_s, 1e13) << name;
    EXPECT_THROW(card.pages(1), UnsupportedError) << name;
  }
  EXPECT_GT(device::find_device("cuda:h200").budget().bytes, device::find_device("cuda:a100-80g").budget().bytes);
  try {
    device::find_device("cuda:h300");
    FAIL();
  } catch (const ArgumentError& error) {
    EXPECT_NE(std::string(error.what()).find("a100-80g, h200"), std::string::npos) << error.what();
  }
}

TEST(PaperCard, SaysWhatItsFileLacks) {
  EXPECT_THROW(cuda::parse_card("mine", "{}"), ArgumentError);
  EXPECT_THROW(cuda::parse_card("mine", "no JSON"), ArgumentError);
  const cuda::Card card = cuda::parse_card(
      "mine", R"({"title": "M", "architecture": "sm_90", "memory_bytes": 9, "context_bytes": 1, "flops_per_s": 1,
                  "bytes_per_s": 2, "workspaces": {"known": 5}})");
  EXPECT_EQ(card.workspace_of("known"), 5);
  EXPECT_EQ(card.workspace_of("other"), cuda::Card::kUnknownWorkspace);
}

TEST(PaperCard, HasPlans) {
  const kernels::Lowered lowered =
      prepared("cuda:h200", "resnet18", {.precision = DType::bf16, .sizes = {{"batch", 32}}});
  program::verify_bound(program::eliminate_dead_code(lowered.program));
  const int64_t whole = plan::plan_memory(lowered).placement.arena_bytes;
  const auto made =
      plan::make_plan(lowered, {.budget_bytes = whole * 4 / 5, .work_limit = 2'000'000, .find_smallest = false});
  ASSERT_TRUE(std::holds_alternative<plan::Plan>(made));
  const plan::Applied applied = plan::apply(std::get<plan::Plan>(made), lowered);
  EXPECT_LE(applied.memory.placement.arena_bytes, whole * 4 / 5);
  int fused = 0;
  for (const program::Op& op : lowered.program.ops) fused += op.def->name.starts_with("batch_norm_relu") ? 1 : 0;
  EXPECT_EQ(fused, 2 * 17);  // all but the normalisations of the three short cuts
}

// tests/data/cuda/<card>.json is what bench_gpu_record wrote on that card.
TEST(PaperCard, TakesWhatTheCardTook) {
  const std::filesystem::path folder = PLIMSOLL_SOURCE_DIR "/tests/data/cuda";
  if (!std::filesystem::exists(folder)) GTEST_SKIP() << "no card was recorded";
  int compared = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    const std::string card = entry.path().stem();
    const nlohmann::json file = nlohmann::json::parse(std::ifstream(entry.path()));
    for (const auto& [key, bytes] : file.at("arenas").items()) {
      const std::string name = key.substr(0, key.find(' '));
      const kernels::Lowered lowered =
          prepared("cuda:" + card, name, {.precision = parse_dtype(key.substr(key.find(' ') + 1))});
      EXPECT_EQ(plan::plan_memory(lowered).placement.arena_bytes, bytes.get<int64_t>()) << card << ": " << key;
      ++compared;
    }
  }
  EXPECT_GT(compared, 10);
}

}  // namespace
}  // namespace plimsoll
