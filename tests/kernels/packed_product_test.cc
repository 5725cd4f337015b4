// Products of matrices in packed panels: the inner loops on any machine, and the ops that go through them where the
// vectors are no wider than AVX2 (tests/CMakeLists.txt runs this so); elsewhere the ops are oneDNN's.
#include "plimsoll/kernels/cpu/support/packed_product.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <tuple>

#include "plimsoll/base/bytes.h"
#include "plimsoll/kernels/cpu/simd/simd.h"
#include "plimsoll/kernels/cpu/support/isa.h"
#include "plimsoll/kernels/cpu/support/low_precision.h"
#include "plimsoll/kernels/prepare.h"
#include "plimsoll/program/text.h"
#include "tests/kernels/against_reference.h"

namespace plimsoll {
namespace {

using kernels::simd::Lines;

// Whole numbers, of which products and sums are exact in f32, and factors in bf16, too.
std::vector<float> whole_numbers(int64_t count) {
  std::mt19937 random(static_cast<uint32_t>(count));
  std::vector<float> numbers(static_cast<size_t>(count));
  for (float& x : numbers) x = static_cast<float>(static_cast<int>(random() % 17) - 8);
  return numbers;
}

// [lines, inner] with either of them beside each other, or neither.
enum class Order { along, across, apart };

struct Matrix {
  std::vector<float> data;
  std::vector<uint16_t> halves;
  Lines lines;

  Matrix(int64_t count, int64_t inner, Order order) : lines{nullptr, count, inner, 1, 1} {
    if (order == Order::along) lines.line_step = inner + 3;
    if (order == Order::across) lines.inner_step = count + 1;
    if (order == Order::apart) lines.line_step = 2, lines.inner_step = 2 * count + 5;
    data = whole_numbers((count - 1) * lines.line_step + (inner - 1) * lines.inner_step + 1);
    for (const float x : data) halves.push_back(kernels::to_bf16(x));
  }
  float at(int64_t line, int64_t place) const {
    return data[static_cast<size_t>(line * lines.line_step + place * lines.inner_step)];
  }
  std::vector<float> packed(void (*pack)(const Lines&, float*), int64_t panel, bool as_halves) const {
    std::vector<float> panels(static_cast<size_t>(align_up(lines.count, panel) * lines.inner + kernels::simd::kLanes));
    Lines from = lines;
    from.from = as_halves ? static_cast<const void*>(halves.data()) : data.data();
    pack(from, panels.data());
    return panels;
  }
};

void expect_product(const Matrix& a, const Matrix& b, bool as_halves, bool add, bool relu) {
  const auto& functions = kernels::simd::functions().packed;
  const auto& pack = as_halves ? functions.on_bf16 : functions.on_f32;
  const auto panels_a = a.packed(pack.rows, functions.panel_rows, as_halves);
  const auto panels_b = b.packed(pack.columns, functions.panel_columns, as_halves);
  const int64_t rows = a.lines.count;
  const int64_t columns = b.lines.count;
  const int64_t c_row = columns + 2;
  const std::vector<float> bias = whole_numbers(columns);
  const std::vector<float> before = whole_numbers(rows * c_row);
  std::vector<float> c = before;
  functions.multiply(
      {rows, columns, a.lines.inner, panels_a.data(), panels_b.data(), c.data(), c_row, add, bias.data(), relu});
  for (int64_t row = 0; row < rows; ++row) {
    for (int64_t column = 0; column < c_row; ++column) {
      const auto at = static_cast<size_t>(row * c_row + column);
      float sum = before[at];  // between the rows it stays
      if (column < columns) {
        sum = (add ? sum : 0) + bias[static_cast<size_t>(column)];
        for (int64_t k = 0; k < a.lines.inner; ++k) sum += a.at(row, k) * b.at(column, k);
        if (relu && sum < 0) sum = 0;
      }
      ASSERT_EQ(c[at], sum) << row << " " << column;
    }
  }
}

TEST(PackedProduct, IsExactOnWholeNumbersInAnyOrder) {
  for (const auto& [rows, columns, inner] :
       {std::tuple(1, 1, 1), std::tuple(6, 16, 8), std::tuple(13, 37, 21), std::tuple(49, 130, 65)}) {
    for (const Order a : {Order::along, Order::across, Order::apart}) {
      for (const Order b : {Order::along, Order::across, Order::apart}) {
        SCOPED_TRACE(fmt::format("{}x{}x{}", rows, columns, inner));
        const Matrix left(rows, inner, a);
        const Matrix right(columns, inner, b);
        expect_product(left, right, false, false, false);
        expect_product(left, right, true, true, true);
      }
    }
  }
}

// Longer than a block of the sum, at the edges of blocks and panels, with factors used for all batches.
const char* const kProducts[] = {
    "input %x: f32[7,15,500]\ninput %w: f32[83,500]\ninput %b: f32[83]\n%y = linear(%x, %w, %b)\noutput %y\n",
    "input %x: f32[97,48]\ninput %w: f32[577,48]\n%y = linear(%x, %w)\noutput %y\n",
    "input %a: f32[3,50,61]\ninput %b: f32[3,61,70]\n%y = matmul(%a, %b)\noutput %y\n",
    "input %a: f32[50,64]\ninput %b: f32[2,3,70,64]\n%y = matmul(%a, %b) {transpose_b=true}\noutput %y\n",
    "input %a: f32[2,400,49]\ninput %b: f32[2,400,48]\n%y = matmul(%a, %b) {transpose_a=true}\noutput %y\n",
};

TEST(PackedProduct, IsTheReferencesInEveryPrecision) {
  for (const char* text : kProducts) {
    expect_agreement_in_all_precisions(text, {.tolerance = sum_tolerance(577)});
  }
}

TEST(PackedProduct, HasItsEpilogueInEveryPrecision) {
  for (const char* dtype : {"f32", "f16", "bf16"}) {
    expect_agreement(
        program::parse_program(fmt::format(
            "input %x: {0}[60,400]\ninput %w: {0}[90,400]\ninput %b: {0}[90]\ninput %q: {0}[60,90]\n%r = neg(%q)\n"
            "%y = linear_epilogue(%x, %w, %b, %r) {{residual=true, relu=true}}\noutput %y\n",
            dtype)),
        {.tolerance = sum_tolerance(400)});
  }
}

// A sum so long that not all of the right factor is kept in panels.
TEST(PackedProduct, GathersLongSums) {
  expect_agreement(
      program::parse_program("input %x: bf16[200,5600]\ninput %w: bf16[192,5600]\n%y = linear(%x, %w)\n"
                             "output %y\n"));
}

TEST(PackedProduct, HasTheSameBitsOnAnyNumberOfThreads) {
  if (kernels::vector_isa() >= kernels::Isa::avx512) GTEST_SKIP() << "products are oneDNN's here";
  for (const char* text : kProducts) {
    const program::Program program = with_gradients(text);
    const auto values = random_values(program, {});
    const auto expected = outputs_of(program, values, {.threads = 1});
    for (int threads = 2; threads <= std::min(kernels::thread_count({}), 6); ++threads) {
      EXPECT_EQ(outputs_of(program, values, {.threads = threads}), expected) << text;
    }
  }
}

TEST(PackedProduct, TakesLittleScratchForAThread) {
  if (kernels::vector_isa() >= kernels::Isa::avx512) GTEST_SKIP() << "products are oneDNN's here";
  for (const auto& [dtype, of_thread, of_all] : {std::tuple("f32", 2, 0), std::tuple("bf16", 3, 8)}) {
    const program::Program program = program::parse_program(
        fmt::format("input %x: {0}[4096,2048]\ninput %w: {0}[8192,2048]\n%y = linear(%x, %w)\noutput %y\n", dtype));
    for (int threads = 1; threads <= std::min(kernels::thread_count({}), 4); ++threads) {
      const auto scratch = kernels::prepare(program, {.threads = threads}).scratch_bytes();
      EXPECT_LT(scratch[0], (threads * of_thread + of_all) * kMiB) << dtype << ", " << threads << " threads";
    }
  }
}

}  // namespace
}  // namespace plimsoll
