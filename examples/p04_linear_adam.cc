// P4: a linear layer 29 -> 10 trained with Adam on x[17,29] in batches of 1, 4 and 17. One program serves them all, the
// short last batch too; the gradients of the parts add up to those of the whole.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "plimsoll/base/bytes.h"
#include "plimsoll/models/nn.h"
#include "plimsoll/plan/estimate.h"
#include "plimsoll/program/autodiff.h"
#include "plimsoll/program/evaluate.h"
#include "plimsoll/program/ops/elementwise_unary.h"
#include "plimsoll/program/ops/loss.h"
#include "plimsoll/program/train_step.h"

namespace {

using namespace plimsoll;
using Array = program::Array<double>;
using program::Value;

constexpr int64_t kSamples = 17;
constexpr int64_t kIn = 29;
constexpr int64_t kOut = 10;

models::Model linear_model() {
  models::Net net({.dtype = DType::f32});
  const Value x = net.input("x", {models::Net::batch(), kIn});
  const Value y = models::linear(net, "dense", x, kOut);
  return models::regress(std::move(net), y);
}

// The gradient of the weight, of squared errors divided by the count of the whole: so parts of any size add up.
program::Program gradient_program() {
  models::Net net({.dtype = DType::f32});
  const Value x = net.input("x", {models::Net::batch(), kIn});
  const Value y = models::linear(net, "dense", x, kOut);
  const Value target = net.input("target", {models::Net::batch(), kOut});
  const Value errors = program::mse_loss(net.b, y, target, program::Reduction::sum);
  const Value loss = program::affine(net.b, errors, {.scale = 1.0 / (kSamples * kOut)});
  const Value weight = net.b.program().parameters[0];
  const Value gradient = program::gradients(net.b, loss, std::span(&weight, 1))[0];
  return std::move(net).finish(gradient).program;
}

// Rows [first, first + rows) of a table of so many columns, different everywhere.
Array table(int64_t first, int64_t rows, int64_t columns) {
  Array array({DType::f32, {rows, columns}});
  for (size_t i = 0; i < array.reals.size(); ++i) {
    array.reals[i] = std::sin(static_cast<double>(first * columns) + static_cast<double>(i));
  }
  return array;
}

std::vector<double> gradient_in_batches(const program::Program& program, int64_t batch) {
  Array bias({DType::f32, {kOut}});
  std::vector<double> sum(kOut * kIn, 0.0);
  for (int64_t first = 0; first < kSamples; first += batch) {
    const int64_t rows = std::min(batch, kSamples - first);
    const auto found =
        program::evaluate<double>(program::bind(program, {{"batch", rows}}), {{"x", table(first, rows, kIn)},
                                                                              {"target", table(first, rows, kOut)},
                                                                              {"dense.weight", table(100, kOut, kIn)},
                                                                              {"dense.bias", bias}});
    const std::vector<double>& part = found.outputs.begin()->second.reals;
    for (size_t i = 0; i < sum.size(); ++i) sum[i] += part[i];
  }
  return sum;
}

double largest_difference(const std::vector<double>& a, const std::vector<double>& b) {
  double largest = 0;
  for (size_t i = 0; i < a.size(); ++i) largest = std::max(largest, std::abs(a[i] - b[i]));
  return largest;
}

// While the weights' gradients are made, alive are x, target and the gradient of y for each sample; weights and bias
// with gradient and two moments; the rate, the loss and the step counter.
int64_t peak_by_hand(int64_t batch) {
  const int64_t weights = (kOut * kIn + kOut) * 4;
  return batch * (kIn + kOut + kOut) * 4 + 4 * weights + 4 + 4 + 8;
}

}  // namespace

int main() {
  const models::Model model = linear_model();
  const program::Program step = program::training_step(model.program, model.loss);
  const program::Program gradient = gradient_program();
  const std::vector<double> whole = gradient_in_batches(gradient, kSamples);
  bool right = true;
  for (const int64_t batch : {1, 4, 17}) {
    const plan::Estimate estimate = plan::estimate(program::bind(step, {{"batch", batch}}));
    const double difference = largest_difference(gradient_in_batches(gradient, batch), whole);
    fmt::print("batch {:>2}: predicted {} bytes, by hand {}; gradient differs from the whole batch's by {:.1e}\n",
               batch, format_count(estimate.live_peak_bytes), format_count(peak_by_hand(batch)), difference);
    right = right && estimate.live_peak_bytes == peak_by_hand(batch) && difference < 1e-14;
  }
  return right ? 0 : 1;
}
