// P4: a linear layer 29 -> 10 trained with Adam on x[17,29] in batches of 1, 4 and 17. Any batch will do, the short
// last one too: the gradients of the parts add up to those of the whole, and so the weights after a step are the same.
// What a planned step of each batch takes is known before it runs.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "plimsoll/base/bytes.h"
#include "plimsoll/models/nn.h"
#include "plimsoll/plan/estimate.h"
#include "plimsoll/program/ops/linear.h"
#include "plimsoll/program/ops/loss.h"
#include "plimsoll/program/train_step.h"
#include "plimsoll/run/eager/host.h"
#include "plimsoll/run/eager/optimizer.h"

namespace {

using namespace plimsoll;
using eager::Tensor;

constexpr int64_t kSamples = 17;
constexpr int64_t kIn = 29;
constexpr int64_t kOut = 10;

// Different everywhere.
Tensor table(eager::Context& context, const Shape& shape) {
  std::vector<float> values;
  for (int64_t i = 0; i < shape.elements(); ++i) values.push_back(std::sin(static_cast<float>(i)));
  return context.from(shape, values);
}

struct Trained {
  std::vector<float> gradient;
  std::vector<float> weight;
};

// A step in which gradients are added up over batches. The squared errors are divided by the count of the whole, so
// that parts of any size add up.
Trained train(eager::Context& context, int64_t batch) {
  const Tensor x = table(context, {kSamples, kIn});
  const Tensor target = table(context, {kSamples, kOut});
  Tensor weight = table(context, {kOut, kIn}).require_grad();
  Tensor bias = context.parameter("bias", {DType::f32, {kOut}});
  eager::Adam adam(context, {weight, bias});
  for (int64_t first = 0; first < kSamples; first += batch) {
    const int64_t end = std::min(first + batch, kSamples);
    const Tensor y = eager::call(program::linear, x.slice(0, first, end), weight, bias);
    const Tensor errors = eager::call(program::mse_loss, y, target.slice(0, first, end), program::Reduction::sum);
    (errors / (kSamples * kOut)).backward();
  }
  adam.step();
  return {weight.grad().values<float>(), weight.values<float>()};
}

double largest_difference(const std::vector<float>& a, const std::vector<float>& b) {
  double largest = 0;
  for (size_t i = 0; i < a.size(); ++i) largest = std::max(largest, std::abs(static_cast<double>(a[i] - b[i])));
  return largest;
}

program::Program planned_step(int64_t batch) {
  models::Net net({.dtype = DType::f32});
  const program::Value x = net.input("x", {models::Net::batch(), kIn});
  const program::Value y = models::linear(net, "dense", x, kOut);
  const models::Model model = models::regress(std::move(net), y);
  return program::bind(program::training_step(model.program, model.loss), {{"batch", batch}});
}

// While the weights' gradients are made, alive are x, target and the gradient of y for each sample; weights and bias
// with gradient and two moments; the rate, the loss and the step counter.
int64_t peak_by_hand(int64_t batch) {
  const int64_t weights = (kOut * kIn + kOut) * 4;
  return batch * (kIn + kOut + kOut) * 4 + 4 * weights + 4 + 4 + 8;
}

}  // namespace

int main() {
  eager::Host host({kMiB, "this example"});
  const Trained whole = train(host.context(), kSamples);
  bool right = true;
  for (const int64_t batch : {1, 4, 17}) {
    const Trained parts = train(host.context(), batch);
    const double difference = largest_difference(parts.gradient, whole.gradient);
    const int64_t predicted = plan::estimate(planned_step(batch)).live_peak_bytes;
    fmt::print(
        "batch {:>2}: gradient differs from the whole batch's by {:.1e}; a planned step takes {} bytes, by hand {}\n",
        batch, difference, format_count(predicted), format_count(peak_by_hand(batch)));
    right = right && difference < 1e-6 && largest_difference(parts.weight, whole.weight) < 1e-5 &&
            predicted == peak_by_hand(batch);
  }
  return right && host.pool().stats().live_bytes == 0 ? 0 : 1;
}
