// P9: inference keeps nothing for a backward pass that never comes. Beside what comes in, the peak is the widest pair
// of layers: one that is read while the next is written. Planned, ReLU runs in place; eagerly, in a NoGrad scope, it is
// one of the pair.
#include <fmt/format.h>

#include <algorithm>

#include "plimsoll/base/bytes.h"
#include "plimsoll/models/nn.h"
#include "plimsoll/plan/estimate.h"
#include "plimsoll/program/ops/linear.h"
#include "plimsoll/program/train_step.h"
#include "plimsoll/run/eager/host.h"

namespace {

using namespace plimsoll;
using eager::Tensor;

constexpr int64_t kBatch = 32;
constexpr int64_t kWidths[] = {64, 1000, 700, 900, 10};
constexpr int kLayers = 4;

int64_t layer_bytes(int64_t width) { return kBatch * width * 4; }
int64_t weight_bytes(int layer) { return kWidths[layer - 1] * kWidths[layer] * 4; }
int64_t bias_bytes(int layer) { return kWidths[layer] * 4; }

models::Model perceptron(bool training) {
  models::Net net({.training = training});
  models::Value x = net.input("x", {models::Net::batch(), kWidths[0]});
  for (int layer = 1; layer <= kLayers; ++layer) {
    x = models::linear(net, fmt::format("fc{}", layer), x, kWidths[layer]);
    if (layer < kLayers) x = models::relu(net, x);
  }
  return models::classify(std::move(net), x);
}

int64_t planned_peak(const program::Program& program) {
  return plan::estimate(program::bind(program, {{"batch", kBatch}})).live_peak_bytes;
}

bool planned_is_right() {
  int64_t weights = 0;
  int64_t widest_pair = 0;
  for (int layer = 1; layer <= kLayers; ++layer) {
    weights += weight_bytes(layer) + bias_bytes(layer);
    const int64_t read = layer == 1 ? 0 : layer_bytes(kWidths[layer - 1]);  // the input is counted by itself
    widest_pair = std::max(widest_pair, read + layer_bytes(kWidths[layer]));
  }
  const int64_t input = layer_bytes(kWidths[0]);
  const models::Model training = perceptron(true);
  const int64_t predicted = planned_peak(perceptron(false).program);
  fmt::print("planned: {} bytes; by hand weights {}, input {}, widest pair {}\n", format_count(predicted),
             format_count(weights), format_count(input), format_count(widest_pair));
  fmt::print("training with Adam would take {}\n",
             format_count(planned_peak(program::training_step(training.program, training.loss))));
  return predicted == weights + input + widest_pair;
}

// The most bytes beside weights and input, while the layers run one by one.
int64_t eager_peak(bool with_gradients) {
  eager::Host host({16 * kMiB, "this example"}, {.threads = 1});
  eager::Context& context = host.context();
  std::vector<Tensor> weights;
  std::vector<Tensor> biases;
  for (int layer = 1; layer <= kLayers; ++layer) {
    weights.push_back(context.parameter("weight", {DType::f32, {kWidths[layer], kWidths[layer - 1]}}));
    biases.push_back(context.parameter("bias", {DType::f32, {kWidths[layer]}}));
  }
  std::optional<eager::NoGrad> no_grad;
  if (!with_gradients) no_grad.emplace(context);
  const Tensor input = context.full({DType::f32, {kBatch, kWidths[0]}}, 1);
  const int64_t before = host.pool().stats().live_bytes;
  Tensor x = input;
  for (size_t layer = 0; layer < kLayers; ++layer) {
    x = eager::call(program::linear, x, weights[layer], biases[layer]);
    if (layer + 1 < kLayers) x = x.relu();
  }
  return host.pool().stats().live_peak_bytes - before;
}

bool eager_is_right() {
  int64_t widest_pair = 0;
  for (int layer = 1; layer < kLayers; ++layer) {
    widest_pair = std::max(widest_pair, 2 * layer_bytes(kWidths[layer]));  // before and after ReLU
  }
  const int64_t peak = eager_peak(false);
  fmt::print("eager, beside weights and input: {} bytes; by hand the widest pair {}; with gradients recorded {}\n",
             format_count(peak), format_count(widest_pair), format_count(eager_peak(true)));
  return peak == widest_pair && peak < eager_peak(true);
}

}  // namespace

int main() { return planned_is_right() && eager_is_right() ? 0 : 1; }
