// P3: y = identity(x), then the batched product of x[13,19,29] with y transposed. The identity takes no bytes; without
// the transposition the shapes do not fit, and the error says so.
#include <fmt/format.h>

#include <string>

#include "plimsoll/base/bytes.h"
#include "plimsoll/base/error.h"
#include "plimsoll/plan/estimate.h"
#include "plimsoll/program/ops/elementwise_unary.h"
#include "plimsoll/program/ops/matmul.h"

namespace {

using namespace plimsoll;

program::Program product(bool transposed) {
  program::Builder b;
  const program::Value x = b.input("x", {DType::f32, {13, 19, 29}});
  const program::Value y = program::identity(b, x);
  b.output(program::matmul(b, x, y, {.transpose_b = transposed}));
  return std::move(b).finish();
}

std::string error_of_untransposed() {
  try {
    product(false);
  } catch (const ArgumentError& error) {
    return error.what();
  }
  return {};
}

}  // namespace

int main() {
  const int64_t x_bytes = 13 * 19 * 29 * 4;
  const int64_t product_bytes = 13 * 19 * 19 * 4;
  const plan::Estimate estimate = plan::estimate(product(true));
  fmt::print("predicted {} bytes; by hand {} + {} and nothing for the identity\n",
             format_count(estimate.live_peak_bytes), format_count(x_bytes), format_count(product_bytes));
  const std::string error = error_of_untransposed();
  fmt::print("without the transposition: {}\n", error);
  const bool names_both = error.find("a is f32[13,19,29], b is f32[13,19,29]") != std::string::npos;
  return estimate.live_peak_bytes == x_bytes + product_bytes && names_both ? 0 : 1;
}
