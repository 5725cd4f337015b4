// P2: x[17,23,31] reshaped to [391,31], times [31,10]. The reshape takes no bytes: planned, where the peak is known to
// the byte before the run, and eagerly, where the pool says so.
#include <fmt/format.h>

#include "plimsoll/base/bytes.h"
#include "plimsoll/plan/estimate.h"
#include "plimsoll/program/ops/matmul.h"
#include "plimsoll/program/ops/shape.h"
#include "plimsoll/run/eager/host.h"

namespace {

using namespace plimsoll;

constexpr int64_t kXBytes = 17 * 23 * 31 * 4;
constexpr int64_t kWBytes = 31 * 10 * 4;
constexpr int64_t kYBytes = 391 * 10 * 4;

bool planned_is_right() {
  program::Builder b;
  const program::Value x = b.input("x", {DType::f32, {17, 23, 31}});
  const program::Value w = b.parameter("w", {DType::f32, {31, 10}});
  b.output(program::matmul(b, program::reshape(b, x, {391, 31}), w));
  const plan::Estimate estimate = plan::estimate(std::move(b).finish());
  fmt::print("planned: {} bytes; by hand {} + {} + {} and nothing for the reshape; {} with padding to 64\n",
             format_count(estimate.live_peak_bytes), format_count(kXBytes), format_count(kWBytes),
             format_count(kYBytes), format_count(estimate.peak_bytes));
  const int64_t padded = align_up(kXBytes, 64) + align_up(kWBytes, 64) + align_up(kYBytes, 64);
  return estimate.live_peak_bytes == kXBytes + kWBytes + kYBytes && estimate.peak_bytes == padded;
}

bool eager_is_right() {
  eager::Host host({kMiB, "this example"});
  const eager::Tensor x = host.context().full({DType::f32, {17, 23, 31}}, 0.5);
  const eager::Tensor w = host.context().full({DType::f32, {31, 10}}, 2);
  const int64_t before = host.pool().stats().live_bytes;
  const eager::Tensor rows = x.reshape({391, 31});
  const int64_t of_reshape = host.pool().stats().live_bytes - before;
  const eager::Tensor y = rows.matmul(w);
  const int64_t of_product = host.pool().stats().live_bytes - before;
  fmt::print("eager: {} bytes for the reshape, {} for the product with padding to 256\n", of_reshape,
             format_count(of_product));
  return of_reshape == 0 && of_product == align_up(kYBytes, 256) && y.values<float>().back() == 31;
}

}  // namespace

int main() { return planned_is_right() && eager_is_right() ? 0 : 1; }
