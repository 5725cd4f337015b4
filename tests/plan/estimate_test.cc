#include "plimsoll/plan/estimate.h"

#include <gtest/gtest.h>

#include <numeric>

#include "plimsoll/base/error.h"
#include "plimsoll/program/text.h"
#include "plimsoll/program/train_step.h"

namespace plimsoll::plan {
namespace {

using program::parse_program;
using program::Program;

int64_t of(const CategoryBytes& bytes, Category category) { return bytes[static_cast<size_t>(category)]; }

int64_t sum(const CategoryBytes& bytes) { return std::accumulate(bytes.begin(), bytes.end(), int64_t{0}); }

// w 10x29 with a gradient that dies at its update.
constexpr const char* kStep = R"(
  input %x: f32[17,29]
  input %rate: f32[]
  parameter %w: f32[10,29]
  %y = matmul(%x, %w) {transpose_b=true}
  %dy = exp(%y) @backward
  %dw: f32[10,29] gradient = matmul(%dy, %x) {transpose_a=true} @backward
  %new = sgd(%w, %dw, %rate) @update
)";

TEST(Estimate, TellsTheMomentAndTheBytesByCategory) {
  const Estimate estimate = plan::estimate(parse_program(kStep));
  // x 1972, rate 4, w 1160 stay; y 680 becomes dy in place; dw 1160 is made while dy is read.
  EXPECT_EQ(estimate.live_bytes, (std::vector<int64_t>{3816, 3816, 4976, 4296}));
  EXPECT_EQ(estimate.live_peak_bytes, 4976);
  EXPECT_EQ(estimate.peak_at.op, 2);
  EXPECT_EQ(estimate.peak_at.what, "matmul %dw");
  EXPECT_EQ(estimate.peak_at.phase, program::Phase::backward);
  EXPECT_EQ(of(estimate.at_peak, Category::input), 1976);
  EXPECT_EQ(of(estimate.at_peak, Category::parameter), 1160);
  EXPECT_EQ(of(estimate.at_peak, Category::gradient), 1160);
  EXPECT_EQ(of(estimate.at_peak, Category::activation), 680);
  EXPECT_EQ(of(estimate.total, Category::activation), 2 * 680);
  EXPECT_EQ(sum(estimate.at_peak), estimate.live_peak_bytes);
}

TEST(Estimate, PadsEveryBufferToTheAlignment) {
  const Estimate estimate = plan::estimate(parse_program(kStep));
  EXPECT_EQ(estimate.peak_bytes, 1984 + 64 + 1216 + 1216 + 704);
  EXPECT_TRUE(estimate.optimal);
  EXPECT_EQ(plan::estimate(parse_program(kStep), {.placement = {.alignment = 1}}).peak_bytes, 4976);
}

TEST(Estimate, NamesTheLargestTensorsFirst) {
  const Estimate estimate = plan::estimate(parse_program(kStep), {.largest = 3});
  ASSERT_EQ(estimate.largest.size(), 3u);
  EXPECT_EQ(estimate.largest[0].name, "x");
  EXPECT_EQ(estimate.largest[0].spec.text(), "f32[17,29]");
  EXPECT_EQ(estimate.largest[0].bytes, 1972);
  EXPECT_EQ(estimate.largest[1].bytes, 1160);
  EXPECT_EQ(estimate.largest[2].bytes, 1160);
}

TEST(Estimate, CannotBeSmallerThanWhatIsAlive) {
  const Program program = parse_program(R"(
    parameter %w: f32[31,31]
    %a = matmul(%w, %w)
    %b = matmul(%a, %w)
    %c = matmul(%b, %a)
    %d = matmul(%c, %b)
    output %d
  )");
  const Estimate estimate = plan::estimate(program);
  EXPECT_GE(estimate.peak_bytes, estimate.live_peak_bytes);
  EXPECT_EQ(estimate.live_peak_bytes, 4 * 31 * 31 * 4);
}

TEST(Estimate, LeavesEmptyTensorsOut) {
  const Program program = parse_program("input %x: f32[0,3]\n%a = exp(%x)\noutput %a");
  EXPECT_EQ(plan::estimate(program).peak_bytes, 0);
}

TEST(Estimate, RefusesMoreBytesThanCanBeCounted) {
  const std::string half = "f32[1000000000,1000000000]";
  const Program program = parse_program(fmt::format("input %a: {0}\ninput %b: {0}\ninput %c: {0}\noutput %a", half));
  EXPECT_THROW(plan::estimate(program), ArgumentError);
}

}  // namespace
}  // namespace plimsoll::plan
