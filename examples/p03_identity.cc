// P3: y = identity(x), then the batched product of x[13,19,29] with y transposed. The identity and the transposition
// take no bytes; without the transposition the shapes do not fit, and the error says so.
#include <fmt/format.h>

#include <string>

#include "plimsoll/base/bytes.h"
#include "plimsoll/base/error.h"
#include "plimsoll/plan/estimate.h"
#include "plimsoll/program/ops/elementwise_unary.h"
#include "plimsoll/program/ops/matmul.h"
#include "plimsoll/run/eager/host.h"

namespace {

using namespace plimsoll;

constexpr int64_t kXBytes = 13 * 19 * 29 * 4;
constexpr int64_t kProductBytes = 13 * 19 * 19 * 4;

bool planned_is_right() {
  program::Builder b;
  const program::Value x = b.input("x", {DType::f32, {13, 19, 29}});
  b.output(program::matmul(b, x, program::identity(b, x), {.transpose_b = true}));
  const plan::Estimate estimate = plan::estimate(std::move(b).finish());
  fmt::print("planned: {} bytes; by hand {} + {} and nothing for the identity\n",
             format_count(estimate.live_peak_bytes), format_count(kXBytes), format_count(kProductBytes));
  return estimate.live_peak_bytes == kXBytes + kProductBytes;
}

std::string error_of_untransposed(const eager::Tensor& x) {
  try {
    x.matmul(x);
  } catch (const ArgumentError& error) {
    return error.what();
  }
  return {};
}

bool eager_is_right() {
  eager::Host host({kMiB, "this example"});
  const eager::Tensor x = host.context().full({DType::f32, {13, 19, 29}}, 1);
  const eager::Tensor y = eager::apply("identity", {x}).transpose({0, 2, 1});
  const int64_t of_views = host.pool().stats().live_bytes - align_up(kXBytes, 256);
  const eager::Tensor product = x.matmul(y);
  fmt::print("eager: {} bytes for identity and transposition, {} in all\n", of_views,
             format_count(host.pool().stats().live_bytes));
  const std::string error = error_of_untransposed(x);
  fmt::print("without the transposition: {}\n", error);
  const bool names_both = error.find("a is f32[13,19,29], b is f32[13,19,29]") != std::string::npos;
  return of_views == 0 && y.shares_memory_with(x) && product.item() == 29 && names_both;
}

}  // namespace

int main() { return planned_is_right() && eager_is_right() ? 0 : 1; }
