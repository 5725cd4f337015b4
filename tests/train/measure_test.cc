// Measuring kernels, with clocks that the test controls: a machine that is busy, or quiet only now and then.
#include "plimsoll/train/measure.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>

#include "plimsoll/memory/limits.h"
#include "plimsoll/program/text.h"

namespace plimsoll::train {
namespace {

using kernels::Lowered;
using plan::cost_key;
using plan::CostTable;
using plan::Roofline;
using plan::roofline_of;

Lowered prepared(const std::string& text) { return kernels::prepare(program::parse_program(text), {.threads = 1}); }
Lowered one_relu() { return prepared("input %x: f32[4096]\n%y = relu(%x)\noutput %y\n"); }

// A machine on which each run, whatever runs, goes as the next of these; the last again and again.
Timer machine_with(std::vector<Timed> runs) {
  return [runs, next = size_t{0}](const std::function<void()>& task) mutable {
    task();
    return runs[std::min(next++, runs.size() - 1)];
  };
}

MeasureOptions options_with(const Timer& timer) { return {.budget = machine_budget(), .timer = timer}; }

TEST(Timed, IsCorrectedByWhatItWaited) {
  const Timed held_up{.wall_s = 1.0, .thread_s = 0.5, .waited_s = 0.4};
  EXPECT_EQ(held_up.alone_s(1), 0.5);
  EXPECT_EQ(held_up.alone_s(2), 0.6);
  EXPECT_FALSE(held_up.is_quiet());
  EXPECT_TRUE((Timed{.wall_s = 1.0, .thread_s = 0.99, .waited_s = 0.01}.is_quiet()));
}

TEST(Timed, OnThisMachineIsWhatTheTaskTook) {
  volatile double sum = 0;
  const Timed timed = time_on_machine([&] {
    for (int i = 0; i < 2'000'000; ++i) sum = sum + 1.0;
  });
  EXPECT_GT(timed.thread_s, 0);
  EXPECT_GE(timed.wall_s, 0.9 * timed.thread_s);
  EXPECT_GE(timed.waited_s, 0);
  EXPECT_LE(timed.waited_s, timed.wall_s);
}

TEST(Measure, TakesTheMedianOfTheQuietRuns) {
  const Lowered lowered = one_relu();
  CostTable table;
  const Timed warm_up{.wall_s = 9e-3, .thread_s = 9e-3};
  const Timed busy{.wall_s = 4e-3, .thread_s = 0.5e-3, .waited_s = 3e-3};
  const Timed slow{.wall_s = 3e-3, .thread_s = 3e-3};
  const Timed fast{.wall_s = 2e-3, .thread_s = 2e-3};
  calibrate("cpu", 1, options_with(machine_with({fast})), table);
  EXPECT_TRUE(
      measure_costs(lowered, options_with(machine_with({warm_up, busy, slow, busy, fast, fast, fast, slow})), table));
  EXPECT_EQ(table.at(cost_key(lowered, 0)).seconds, 2e-3);
  EXPECT_TRUE(table.at(cost_key(lowered, 0)).quiet);
}

TEST(Measure, MarksWhatABusyMachineTook) {
  const Lowered lowered = one_relu();
  CostTable table;
  const Timed busy{.wall_s = 4e-3, .thread_s = 2e-3, .waited_s = 2e-3};
  measure_costs(lowered, options_with(machine_with({busy})), table);
  EXPECT_EQ(table.at(cost_key(lowered, 0)).seconds, 2e-3);
  EXPECT_FALSE(table.at(cost_key(lowered, 0)).quiet);
  const Timed quiet{.wall_s = 3e-3, .thread_s = 3e-3};
  EXPECT_TRUE(measure_costs(lowered, options_with(machine_with({quiet})), table));
  EXPECT_EQ(table.at(cost_key(lowered, 0)).seconds, 3e-3);
  EXPECT_TRUE(table.at(cost_key(lowered, 0)).quiet);
}

// A task of two threads, of which one waited nearly all the time: how long the other would have taken is not known.
TEST(Measure, TakesNothingFromAMachineThatHadNoTime) {
  CostTable table;
  const Timed quiet{.wall_s = 1e-3, .thread_s = 1e-3};
  const Timed starved{.wall_s = 4.0, .thread_s = 1e-3, .waited_s = 3.999};
  Lowered lowered = one_relu();
  lowered.threads = std::min(2, kernels::thread_count({}));
  calibrate("cpu", lowered.threads, options_with(machine_with({quiet})), table);
  lowered.threads = 2;
  const size_t known = table.size();
  EXPECT_FALSE(measure_costs(lowered, options_with(machine_with({starved})), table));
  EXPECT_EQ(table.size(), known);
}

TEST(Measure, LooksAgainAtWhatFewRunsMeasuredAndKeepsTheFaster) {
  const Lowered lowered = one_relu();
  CostTable table;
  const auto measure_at = [&](double seconds) {
    return measure_costs(lowered, options_with(machine_with({{.wall_s = seconds, .thread_s = seconds}})), table);
  };
  measure_at(4e-3);
  EXPECT_TRUE(measure_at(1e-3));
  EXPECT_FALSE(measure_at(2e-3));
  const std::string key = cost_key(lowered, 0);
  EXPECT_EQ(table.at(key).seconds, 1e-3);
  EXPECT_EQ(table.at(key).runs, 3);
  EXPECT_FALSE(measure_at(1e-4)) << "three runs are enough";
  table.at(key).day -= 40;
  EXPECT_TRUE(measure_at(8e-3)) << "for a month";
  EXPECT_EQ(table.at(key).seconds, 8e-3);
}

TEST(Measure, GivesHalvesNumbers) {
  for (const char* dtype : {"f32", "bf16", "f16"}) {
    SCOPED_TRACE(dtype);
    Lowered lowered = prepared(fmt::format("input %x: {0}[5000]\n%y = relu(%x)\noutput %y\n", dtype));
    size_t zeros = 0;
    const auto bytes = static_cast<size_t>(lowered.program[lowered.program.inputs[0]].type.spec().bytes());
    lowered.ops[0].kernel.bind = [&](const kernels::Memory& m) -> kernels::Task {
      return [&zeros, bytes, x = m.in<uint8_t>(0)] { zeros = static_cast<size_t>(std::count(x, x + bytes, 0)); };
    };
    CostTable table;
    measure_costs(lowered, options_with(time_on_machine), table);
    EXPECT_LT(zeros, bytes / 16);
  }
}

TEST(Calibration, MakesTheRooflineOfThisMachine) {
  CostTable table;
  EXPECT_FALSE(calibrate("cpu", 1, {.budget = {1024, "test"}}, table));
  EXPECT_TRUE(calibrate("cpu", 1, {.budget = {16 << 20, "test"}}, table));
  EXPECT_FALSE(calibrate("cpu", 1, {.budget = machine_budget()}, table)) << "once is enough";
  const Roofline machine = roofline_of(table, "cpu", 1);
  EXPECT_NE(machine, Roofline{});
  EXPECT_GT(machine.flops_per_s, 1e8);
  EXPECT_LT(machine.flops_per_s, 1e13);
  EXPECT_GT(machine.conv_flops_per_s, 1e8);
  EXPECT_GT(machine.bytes_per_s, 1e8);
  EXPECT_EQ(roofline_of(table, "cpu", 2), Roofline{});
  const Lowered lowered = one_relu();
  EXPECT_EQ(costs_of(lowered, table).seconds, roofline_seconds(lowered, machine));
}

}  // namespace
}  // namespace plimsoll::train
