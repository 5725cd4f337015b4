// A model of one's own, trained on arrays of one's own within a memory budget.
#include <plimsoll/plimsoll.h>

#include <iostream>
#include <random>

namespace pl = plimsoll;

pl::Model build() {
  pl::Net net;
  auto x = net.input("x", {pl::batch, 3, 32, 32});
  x = relu(net, batch_norm(net, "bn1", conv2d(net, "conv1", x, 32, 3, {.padding = 1})));
  x = max_pool(net, relu(net, conv2d(net, "conv2", x, 32, 3, {.padding = 1})), 2, 2);
  return classify(std::move(net), linear(net, "fc", global_avg_pool(net, x), 2));
}

int main(int argc, char** argv) try {
  constexpr int64_t kBatch = 64;
  constexpr int64_t kSample = 3 * 32 * 32;
  const std::string budget = argc > 1 ? argv[1] : "128MiB";
  const std::string device = argc > 2 ? argv[2] : "cpu";
  pl::Training training(
      build(), {.batch = kBatch, .budget = budget, .optimizer = pl::adam(3e-3), .device = device, .threads = 2});
  std::cout << training.plan();

  // Noise, and the images of class 1 are brighter.
  std::mt19937 random(1);
  std::normal_distribution<float> noise;
  std::vector<float> images(kBatch * kSample);
  std::vector<int64_t> labels(kBatch);
  float loss = 0;
  for (int step = 0; step < 20; ++step) {
    for (int64_t i = 0; i < kBatch; ++i) labels[i] = static_cast<int64_t>(random() % 2);
    for (int64_t i = 0; i < kBatch * kSample; ++i) {
      images[i] = noise(random) + (labels[i / kSample] == 1 ? 0.5F : 0.0F);
    }
    loss = training.step(pl::ArrayBatch({{"x", images}, {"target", labels}}));
    if (step % 5 == 0) std::cout << "step " << training.steps() << "  loss " << loss << '\n';
  }
  std::cout << "after " << training.steps() << " steps  loss " << loss << '\n';
  return loss < 0.6F ? 0 : 1;
} catch (const pl::DoesNotFit& error) {
  std::cerr << error.what() << '\n';
  return 1;
}
