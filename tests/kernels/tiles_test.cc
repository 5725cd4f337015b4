// Kernels on AMX tiles, or on what stands in for them on a machine without: against those in f32.
#include "plimsoll/kernels/cpu/tiles/tiles.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>

#include "plimsoll/kernels/cpu/support/low_precision.h"
#include "plimsoll/kernels/cpu/tiles/pack.h"
#include "plimsoll/program/text.h"
#include "tests/kernels/against_reference.h"

namespace plimsoll {
namespace {

using namespace kernels;
using program::Program;

// Small whole numbers, whose products and sums are exact.
std::vector<uint16_t> numbers(int64_t count, int64_t seed) {
  std::vector<uint16_t> bits(static_cast<size_t>(count));
  for (size_t i = 0; i < bits.size(); ++i) {
    bits[i] = to_bf16(static_cast<float>((static_cast<int64_t>(i) * 7919 + seed) % 17 - 8));
  }
  return bits;
}

TEST(Tiles, PackWhatTheyMultiply) {
  constexpr int64_t kDepth = 45;  // not whole steps
  constexpr int64_t kRow = 40;
  const auto rows = numbers(kDepth * kRow, 3);
  std::vector<uint16_t> packed(static_cast<size_t>(tiles::packed_size(kDepth)), 0x7FFF);
  tiles::pack_rows(rows.data(), kRow, kDepth, packed.data());
  for (int64_t k = 0; k < 2 * tiles::kDepth; ++k) {
    for (int64_t j = 0; j < tiles::kBlock; ++j) {
      const uint16_t expected = k < kDepth ? rows[static_cast<size_t>(k * kRow + j)] : uint16_t{0};
      ASSERT_EQ(packed[static_cast<size_t>(tiles::packed_place(k, j))], expected) << k << ", " << j;
    }
  }
  std::vector<uint16_t> transposed(static_cast<size_t>(tiles::kBlock * 70), 0x7FFF);
  tiles::transpose_rows(rows.data(), kRow, kDepth, transposed.data(), 70);
  for (int64_t k = 0; k < 2 * tiles::kDepth; ++k) {
    for (int64_t j = 0; j < tiles::kBlock; ++j) {
      const uint16_t expected = k < kDepth ? rows[static_cast<size_t>(k * kRow + j)] : uint16_t{0};
      ASSERT_EQ(transposed[static_cast<size_t>(j * 70 + k)], expected) << k << ", " << j;
    }
  }
  for (const int64_t columns : {5, 16, 21, 32}) {
    const auto lines = numbers(columns * 66, 5);
    packed.assign(static_cast<size_t>(tiles::packed_size(64)), 0x7FFF);
    tiles::pack_lines(lines.data(), 66, columns, 64, packed.data());
    for (int64_t k = 0; k < 64; ++k) {
      for (int64_t j = 0; j < tiles::kBlock; ++j) {
        const uint16_t expected = j < columns ? lines[static_cast<size_t>(j * 66 + k)] : uint16_t{0};
        ASSERT_EQ(packed[static_cast<size_t>(tiles::packed_place(k, j))], expected) << k << ", " << j;
      }
    }
  }
}

TEST(Tiles, MultiplyBlocks) {
  constexpr int64_t kRow = 3 * tiles::kDepth + 4;
  constexpr int64_t kSums = 40;
  const auto a = numbers(tiles::kBlock * kRow, 1);
  const auto b = numbers(tiles::packed_size(3 * tiles::kDepth), 2);
  const tiles::Tiles units;
  for (const bool add : {false, true}) {
    std::vector<float> c(static_cast<size_t>(tiles::kBlock * kSums), 5);
    units.multiply({a.data(), kRow, b.data(), 3, c.data(), kSums, add});
    for (int64_t i = 0; i < tiles::kBlock; ++i) {
      for (int64_t j = 0; j < kSums; ++j) {
        float sum = j < tiles::kBlock && !add ? 0 : 5;
        for (int64_t k = 0; j < tiles::kBlock && k < 3 * tiles::kDepth; ++k) {
          sum += from_bf16(a[static_cast<size_t>(i * kRow + k)]) *
                 from_bf16(b[static_cast<size_t>(tiles::packed_place(k, j))]);
        }
        ASSERT_EQ(c[static_cast<size_t>(i * kSums + j)], sum) << i << ", " << j;
      }
    }
  }
}

// Differences by the largest number of an output.
double worst_difference(const std::vector<float>& found, const std::vector<float>& expected) {
  double scale = 1e-3;
  double worst = 0;
  for (size_t i = 0; i < expected.size(); ++i) {
    scale = std::max(scale, std::abs(static_cast<double>(expected[i])));
    const double off = std::abs(static_cast<double>(found[i]) - static_cast<double>(expected[i]));
    worst = std::isnan(off) && std::isnan(found[i]) == std::isnan(expected[i]) ? worst : std::max(worst, off);
  }
  return worst / scale;
}

// Values and gradients. That scratch differs shows that other kernels are at work.
void expect_alike(const std::string& text, double tolerance) {
  const Program program = with_gradients(text);
  const auto values = random_values(program, {});
  for (const int threads : {1, 2}) {
    const auto found = outputs_of(program, values, {.threads = threads, .amx_tiles = true});
    const auto expected = outputs_of(program, values, {.threads = threads, .amx_tiles = false});
    for (size_t i = 0; i < expected.size(); ++i) {
      ASSERT_EQ(found[i].size(), expected[i].size());
      EXPECT_LE(worst_difference(found[i], expected[i]), tolerance) << threads << " threads: output " << i << " of\n"
                                                                    << program::write_program(program);
    }
  }
  const auto scratch = [&](bool units) { return prepare(program, {.threads = 2, .amx_tiles = units}).scratch_bytes(); };
  EXPECT_NE(scratch(true), scratch(false)) << text;
}

TEST(Tiles, GiveTheWeightsOfNarrowConvolutions) {
  for (const auto& [image, weights, attributes] : {
           std::tuple("3,3,37,41", "32,3,3,3", "padding=[1]"),
           std::tuple("2,3,61,45", "64,3,7,7", "stride=[2], padding=[3]"),
           std::tuple("1,1,50,47", "32,1,5,3", "stride=[3,1], padding=[0,2,4,1]"),
           std::tuple("2,4,23,90", "32,4,3,5", "stride=[1,3]"),
       }) {
    expect_alike(fmt::format("input %x: bf16[{}]\ninput %w: bf16[{}]\ninput %v: bf16[32,{},3,3]\n"
                             "%c = conv(%x, %w) {{{}}}\n%d = conv(%c, %v) {{padding=[1]}}\n%y = sigmoid(%d)\n"
                             "output %y\n",
                             image, weights, std::string(weights).substr(0, 2), attributes),
                 0.012);
  }
}

// Between two more convolutions, so that images lie with their channels last.
TEST(Tiles, GiveTheWeightsOfSmallImages) {
  for (const auto& [image, in, out, kernel, attributes] : {
           std::tuple("3,64,7,9", 64, 96, "3,3", "padding=[1]"),
           std::tuple("9,96,22,21", 96, 64, "3,3", "stride=[2], padding=[1,0,1,2]"),
           std::tuple("5,64,9,9", 64, 64, "1,1", "stride=[2]"),
           std::tuple("1,64,8,20", 64, 64, "1,3", "dilation=[1,2]"),
       }) {
    expect_alike(fmt::format("input %x: bf16[{}]\ninput %u: bf16[{},{},1,1]\ninput %w: bf16[{},{},{}]\n"
                             "input %v: bf16[128,{},1,1]\n%b = conv(%x, %u)\n%c = conv(%b, %w) {{{}}}\n"
                             "%d = conv(%c, %v)\n%y = sigmoid(%d)\noutput %y\n",
                             image, in, in, out, in, kernel, out, attributes),
                 0.02);
  }
}

TEST(Tiles, Attend) {
  for (const auto& [q, k, v, attributes] : {
           std::tuple("2,3,130,64", "2,3,130,64", "2,3,130,64", "causal=true"),
           std::tuple("1,2,65,32", "1,2,301,32", "1,2,301,96", "causal=false"),
           std::tuple("2,1,350,96", "2,1,290,96", "2,1,290,32", "causal=true, scale=0.3"),
       }) {
    expect_alike(fmt::format("input %q: bf16[{}]\ninput %k: bf16[{}]\ninput %v: bf16[{}]\n"
                             "%y = attention(%q, %k, %v) {{{}}}\noutput %y\n",
                             q, k, v, attributes),
                 0.015);
  }
  // Heads side by side in a line, and queries that see no key.
  expect_alike(
      "input %x: bf16[2,70,192]\ninput %m: bool[70,1]\n"
      "%q = slice(%x) {starts=[0,0,0], sizes=[2,70,64], steps=[1,1,1]}\n%q1 = reshape(%q) {shape=[2,70,2,32]}\n"
      "%k = slice(%x) {starts=[0,0,64], sizes=[2,70,64], steps=[1,1,1]}\n%k1 = reshape(%k) {shape=[2,70,2,32]}\n"
      "%v = slice(%x) {starts=[0,0,128], sizes=[2,70,64], steps=[1,1,1]}\n%v1 = reshape(%v) {shape=[2,70,2,32]}\n"
      "%q2 = transpose(%q1) {axes=[0,2,1,3]}\n%k2 = transpose(%k1) {axes=[0,2,1,3]}\n"
      "%v2 = transpose(%v1) {axes=[0,2,1,3]}\n%y = attention(%q2, %k2, %v2, %m)\noutput %y\n",
      0.015);
}

}  // namespace
}  // namespace plimsoll
