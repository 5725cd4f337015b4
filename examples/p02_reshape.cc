// P2: x[17,23,31] reshaped to [391,31], times [31,10]. The reshape takes no bytes, and the peak is known to the byte.
#include <fmt/format.h>

#include "plimsoll/base/bytes.h"
#include "plimsoll/plan/estimate.h"
#include "plimsoll/program/ops/matmul.h"
#include "plimsoll/program/ops/shape.h"

int main() {
  using namespace plimsoll;
  program::Builder b;
  const program::Value x = b.input("x", {DType::f32, {17, 23, 31}});
  const program::Value w = b.parameter("w", {DType::f32, {31, 10}});
  b.output(program::matmul(b, program::reshape(b, x, {391, 31}), w));
  const plan::Estimate estimate = plan::estimate(std::move(b).finish());

  const int64_t x_bytes = 17 * 23 * 31 * 4;
  const int64_t w_bytes = 31 * 10 * 4;
  const int64_t y_bytes = 391 * 10 * 4;
  fmt::print("predicted {} bytes; by hand {} + {} + {} and nothing for the reshape; {} with padding to 64\n",
             format_count(estimate.live_peak_bytes), format_count(x_bytes), format_count(w_bytes),
             format_count(y_bytes), format_count(estimate.peak_bytes));
  const bool live_is_right = estimate.live_peak_bytes == x_bytes + w_bytes + y_bytes;
  const bool arena_is_right =
      estimate.peak_bytes == align_up(x_bytes, 64) + align_up(w_bytes, 64) + align_up(y_bytes, 64);
  return live_is_right && arena_is_right ? 0 : 1;
}
