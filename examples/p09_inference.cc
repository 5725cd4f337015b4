// P9: inference keeps nothing for a backward pass that never comes. Beside what comes in, the peak is the widest pair
// of layers: one that is read while the next is written.
#include <fmt/format.h>

#include <algorithm>

#include "plimsoll/base/bytes.h"
#include "plimsoll/models/nn.h"
#include "plimsoll/plan/estimate.h"
#include "plimsoll/program/train_step.h"

namespace {

using namespace plimsoll;

constexpr int64_t kBatch = 32;
constexpr int64_t kWidths[] = {64, 1000, 700, 900, 10};
constexpr int kLayers = 4;

models::Model perceptron(bool training) {
  models::Net net({.training = training});
  models::Value x = net.input("x", {models::Net::batch(), kWidths[0]});
  for (int layer = 1; layer <= kLayers; ++layer) {
    x = models::linear(net, fmt::format("fc{}", layer), x, kWidths[layer]);
    if (layer < kLayers) x = models::relu(net, x);
  }
  return models::classify(std::move(net), x);
}

}  // namespace

int main() {
  int64_t weights = 0;
  int64_t widest_pair = 0;
  for (int layer = 1; layer <= kLayers; ++layer) {
    weights += (kWidths[layer - 1] * kWidths[layer] + kWidths[layer]) * 4;
    const int64_t read = layer == 1 ? 0 : kWidths[layer - 1];  // the input is counted by itself
    widest_pair = std::max(widest_pair, kBatch * (read + kWidths[layer]) * 4);
  }
  const int64_t input = kBatch * kWidths[0] * 4;
  const auto peak = [](const program::Program& program) {
    return plan::estimate(program::bind(program, {{"batch", kBatch}})).live_peak_bytes;
  };
  const models::Model training = perceptron(true);
  const int64_t predicted = peak(perceptron(false).program);
  fmt::print("inference: predicted {} bytes; by hand weights {}, input {}, widest pair {}\n", format_count(predicted),
             format_count(weights), format_count(input), format_count(widest_pair));
  fmt::print("training with Adam would take {}\n",
             format_count(peak(program::training_step(training.program, training.loss))));
  return predicted == weights + input + widest_pair ? 0 : 1;
}
