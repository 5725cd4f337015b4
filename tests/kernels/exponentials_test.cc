// Exponentials and GELU on f16 and bf16, which take shorter ways than in f32: for every element that there is, against
// the library's in f64.
#include <gtest/gtest.h>

#include <cmath>

#include "plimsoll/kernels/cpu/support/low_precision.h"
#include "plimsoll/kernels/cpu/support/low_precision_copy.h"

namespace plimsoll::kernels {
namespace {

struct Dtype {
  DType dtype;
  float (*from)(uint16_t);
  double rounding;  // of a result, of itself
  double least;     // that results are rounded to near zero
};

const Dtype kDtypes[] = {{DType::bf16, from_bf16, 0x1p-8, 0x1p-120}, {DType::f16, from_f16, 0x1p-11, 0x1p-25}};

// All of them, NaN and infinities, too.
std::vector<uint16_t> all_low_precision() {
  std::vector<uint16_t> all(65536);
  for (size_t i = 0; i < all.size(); ++i) all[i] = static_cast<uint16_t>(i);
  return all;
}

// Where the result is NaN or infinite, the same.
void expect_near(double found, double expected, double tolerance, double x) {
  if (std::isnan(expected) || std::isinf(expected)) {
    ASSERT_TRUE(std::isnan(expected) ? std::isnan(found) : found == expected) << found << " of " << x;
  } else {
    ASSERT_NEAR(found, expected, tolerance) << "of " << x;
  }
}

TEST(Exponentials, OfHalvesAreFarMoreExactThanHalvesAre) {
  for (const Dtype& d : kDtypes) {
    for (const uint16_t half : all_low_precision()) {
      const float x = d.from(half);
      const double expected = x > 88.72F ? INFINITY : std::exp(static_cast<double>(x));
      const float found = element_loops(d.dtype).sum_of_exp(&half, 1, 0);
      expect_near(found, expected, expected * 0x1p-17 + 0x1p-125, x);
      if (HasFatalFailure()) return;
    }
  }
}

// The slope of what is infinite is no number in the reference; here it is 0 or 1.
TEST(Exponentials, MakeGeluOfHalves) {
  const std::vector<uint16_t> x = all_low_precision();
  const auto count = static_cast<int64_t>(x.size()) - 3;  // the last vector is cut short
  for (const Dtype& d : kDtypes) {
    const std::vector<uint16_t> ones(x.size(), d.dtype == DType::bf16 ? to_bf16(1) : to_f16(1));
    std::vector<uint16_t> y(x.size());
    std::vector<uint16_t> slope(x.size());
    element_loops(d.dtype).gelu_tanh(y.data(), x.data(), count);
    element_loops(d.dtype).gelu_tanh_backward(slope.data(), ones.data(), x.data(), count);
    for (size_t i = 0; i < static_cast<size_t>(count); ++i) {
      const double v = d.from(x[i]);
      const double gate = std::tanh(std::sqrt(2 / M_PI) * (v + 0.044715 * v * v * v));
      const double inner_slope = std::sqrt(2 / M_PI) * (1 + 3 * 0.044715 * v * v);
      const double expected = (1 + gate) / 2 + v / 2 * (1 - gate * gate) * inner_slope;
      const double share = 1 / (1 + std::exp(-2 * std::sqrt(2 / M_PI) * (v + 0.044715 * v * v * v)));
      expect_near(d.from(y[i]), v * share, std::abs(v * share) * (d.rounding + 0x1p-13) + d.least, v);
      if (!std::isinf(v)) expect_near(d.from(slope[i]), expected, std::abs(expected) * d.rounding + 0x1p-13, v);
      if (HasFatalFailure()) return;
    }
  }
}

}  // namespace
}  // namespace plimsoll::kernels
