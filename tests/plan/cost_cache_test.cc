// The cost cache: what tells two times apart, what estimates make of them, and the file that processes share.
#include "plimsoll/plan/cost_cache.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cstdlib>
#include <filesystem>
#include <thread>

#include "plimsoll/base/file.h"
#include "plimsoll/program/text.h"

namespace plimsoll::plan {
namespace {

using kernels::Lowered;

Lowered prepared(const std::string& text) { return kernels::prepare(program::parse_program(text), {.threads = 1}); }

Lowered products(int64_t rows) {
  return prepared(fmt::format("input %x: f32[{0},64]\ninput %w: f32[64,64]\n%y = matmul(%x, %w)\noutput %y\n", rows));
}

MeasuredOp measured_at(double times, const Lowered& lowered) {
  const kernels::LoweredOp& op = lowered.ops[0];
  return {times * roofline_seconds(lowered)[0], op.flops, op.bytes, today()};
}

TEST(CostKey, TellsLayoutsDevicesAndTilesApart) {
  const Lowered plain = prepared(
      "input %x: bf16[1,16,9,9]\ninput %w: bf16[16,16,3,3]\n%a = conv(%x, %w)\n%b = conv(%a, %w)\noutput %b\n");
  const auto second_conv = static_cast<int32_t>(plain.program.ops.size()) - 1;
  const auto key_with = [&](const auto& change) {
    Lowered lowered = plain;
    lowered.layouts.assign(lowered.program.values.size(), kernels::Layout::strided);
    lowered.blocked_ops.assign(lowered.program.ops.size(), false);
    lowered.amx_tiles = false;
    change(lowered);
    return cost_key(lowered, second_conv);
  };
  const auto block = [](Lowered& lowered) {
    lowered.layouts.assign(lowered.program.values.size(), kernels::Layout::blocked16);
  };
  const std::vector<std::string> keys = {
      key_with([](Lowered&) {}),
      key_with(block),
      key_with([&](Lowered& lowered) { block(lowered), lowered.amx_tiles = true; }),
      key_with([](Lowered& lowered) { lowered.amx_tiles = true; }),
      key_with([](Lowered& lowered) { lowered.blocked_ops.assign(lowered.program.ops.size(), true); }),
      key_with([](Lowered& lowered) { lowered.device = "sim"; }),
      key_with([](Lowered& lowered) { lowered.threads = 7; }),
      key_with([](Lowered& lowered) { lowered.ops.back().kernel.scratch_bytes = 12345; }),
  };
  for (size_t i = 0; i < keys.size(); ++i) {
    for (size_t j = 0; j < i; ++j) EXPECT_NE(keys[i], keys[j]) << i << " and " << j;
  }
}

// A product of lenet, timed on a machine that had no time for it, made a step of gpt2 take 8,884 s.
TEST(Costs, OfOneOpScaleThoseOfAnotherWithinBounds) {
  const Lowered small = products(4);
  const Lowered like = products(8);
  const Lowered large = products(1 << 16);
  for (const double times : {1e-6, 1e6}) {
    const CostTable table = {{cost_key(small, 0), measured_at(times, small)}};
    const auto scale = [&](const Lowered& lowered) {
      return costs_of(lowered, table).scaled_s / roofline_seconds(lowered)[0];
    };
    EXPECT_NEAR(std::abs(std::log(scale(like))), std::log(16), 1e-6);
    EXPECT_LT(std::abs(std::log(scale(large))), std::log(4));
  }
}

TEST(Costs, AreNotScaledFromATimeOfABusyMachine) {
  const Lowered small = products(4);
  MeasuredOp busy = measured_at(5, small);
  busy.quiet = false;
  const CostTable table = {{cost_key(small, 0), busy}};
  EXPECT_EQ(costs_of(small, table).measured_s, busy.seconds);
  EXPECT_EQ(costs_of(products(8), table).scaled_s, 0);
}

TEST(Costs, ThatAreNotMeasuredAreARange) {
  const Costs measured{{}, 1.0, 0, 0};
  EXPECT_TRUE(measured.is_measured());
  EXPECT_EQ(measured.low_s(), 1.0);
  EXPECT_EQ(measured.high_s(), 1.0);
  const Costs mixed{{}, 1.0, 1.0, 1.0};
  EXPECT_FALSE(mixed.is_measured());
  EXPECT_LT(mixed.low_s(), 2.2);
  EXPECT_GT(mixed.high_s(), 5);
}

TEST(MeasuredOps, GiveWayToBetterOnes) {
  const int64_t day = today();
  const MeasuredOp slow{2.0, 1, 1, day};
  const MeasuredOp fast{1.0, 1, 1, day - 1};
  EXPECT_EQ(better_of(slow, fast).seconds, 1.0);
  EXPECT_EQ(better_of(fast, slow).day, day);
  const MeasuredOp old{0.5, 1, 1, day - 40};
  EXPECT_TRUE(is_stale(old, day));
  EXPECT_EQ(better_of(old, slow).seconds, 2.0);
  EXPECT_EQ(better_of(slow, old).seconds, 2.0);
  const MeasuredOp busy{0.1, 1, 1, day, 1, false};
  EXPECT_EQ(better_of(busy, slow).seconds, 2.0);
}

class CostCache : public testing::Test {
 protected:
  ~CostCache() override { std::filesystem::remove_all(folder_); }
  void expect_ignored() const {
    const LoadedCosts loaded = load_costs(path_);
    EXPECT_TRUE(loaded.table.empty());
    EXPECT_NE(loaded.note.find("is ignored and will be written anew"), std::string::npos) << loaded.note;
    EXPECT_EQ(loaded.note.find("exception"), std::string::npos) << loaded.note;
  }

  std::filesystem::path folder_ = std::filesystem::temp_directory_path() / fmt::format("plimsoll-costs-{}", getpid());
  std::string path_ = folder_ / "deeper/costs.json";
  const MeasuredOp some_{1e-3, 7, 8, today()};
};

TEST_F(CostCache, KeepsWhatWasMeasured) {
  const CostTable table = {{"relu/cpu/1(", some_}, {"conv/cpu/2(", {0.25, 1, 2, today(), 3}}};
  EXPECT_TRUE(load_costs(path_).table.empty());
  save_costs(path_, table);
  EXPECT_EQ(load_costs(path_).table, table);
}

TEST_F(CostCache, DoesNotKeepTimesOfABusyMachineNorOldOnes) {
  MeasuredOp busy = some_;
  busy.quiet = false;
  MeasuredOp old = some_;
  old.day -= 200;
  save_costs(path_, {{"busy", busy}, {"old", old}, {"good", some_}});
  EXPECT_EQ(load_costs(path_).table, (CostTable{{"good", some_}}));
}

TEST_F(CostCache, KeepsMachinesAndLimitsOfInstructionsApart) {
  if (std::getenv("PLIMSOLL_MAX_ISA") != nullptr) GTEST_SKIP() << "the test sets the limit, and runs without one, too";
  save_costs(path_, {{"relu", some_}});
  setenv("PLIMSOLL_MAX_ISA", "sse4", 1);
  EXPECT_TRUE(load_costs(path_).table.empty());
  save_costs(path_, {{"conv", some_}});
  EXPECT_EQ(load_costs(path_).table.count("conv"), 1U);
  unsetenv("PLIMSOLL_MAX_ISA");
  EXPECT_EQ(load_costs(path_).table, (CostTable{{"relu", some_}}));
}

TEST_F(CostCache, OfSeveralWritersHasWhatEachLearnt) {
  constexpr int kWriters = 8;
  std::vector<std::thread> writers;
  for (int i = 0; i < kWriters; ++i) {
    writers.emplace_back([this, i] {
      for (int k = 0; k < 5; ++k) save_costs(path_, {{fmt::format("op {} of {}", k, i), some_}});
    });
  }
  for (std::thread& writer : writers) writer.join();
  EXPECT_EQ(load_costs(path_).table.size(), size_t{5 * kWriters});
}

TEST_F(CostCache, IgnoresACorruptFileAndSaysSo) {
  save_costs(path_, {{"relu", some_}});
  const std::string good = read_file(path_);
  const auto changed = [&](const std::string& from, const std::string& to) {
    std::string text = good;
    return text.replace(text.find(from), from.size(), to);
  };
  std::string deep(1 << 20, '[');
  for (const std::string& text :
       {std::string("{"), std::string("[]"), std::string("null"), std::string(), good.substr(0, good.size() / 2),
        std::string("{\"plimsoll_costs\": 7}"), std::string("{\"plimsoll_costs\": 3, \"machines\": [1, 2]}"), deep,
        changed("\"seconds\": 0.001", "\"seconds\": -1"), changed("\"seconds\": 0.001", "\"seconds\": 1e300"),
        changed("\"seconds\": 0.001", "\"seconds\": 1e999"), changed("\"seconds\": 0.001", "\"seconds\": \"fast\""),
        changed("\"flops\": 7", "\"flops\": -7"), changed("\"runs\": 1", "\"runs\": 0")}) {
    SCOPED_TRACE(text.substr(0, 200));
    write_file(path_, text);
    expect_ignored();
    save_costs(path_, {{"relu", some_}});
    EXPECT_EQ(load_costs(path_).table.size(), 1U);
  }
}

TEST_F(CostCache, WaitsForNoPipeThatStandsThere) {
  std::filesystem::create_directories(std::filesystem::path(path_).parent_path());
  ASSERT_EQ(mkfifo(path_.c_str(), 0600), 0);
  expect_ignored();
  std::filesystem::remove(path_);
  std::filesystem::create_directory(path_);
  expect_ignored();
}

}  // namespace
}  // namespace plimsoll::plan
