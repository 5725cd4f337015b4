// A multi-layer perceptron, and LeNet-5 (LeCun, Bottou, Bengio, Haffner: "Gradient-Based Learning Applied to Document
// Recognition", 1998).
#include "plimsoll/models/zoo/families.h"
#include "plimsoll/program/ops/elementwise_unary.h"
#include "plimsoll/program/ops/pool.h"
#include "plimsoll/program/ops/shape.h"

namespace plimsoll::models {

Model build_mlp(const NetOptions& options, Size size) {
  const int64_t width = size == Size::full ? 512 : 12;
  Net net(options);
  Value x = net.input("x", {Net::batch(), size == Size::full ? 784 : 20});
  x = relu(net, linear(net, "fc1", x, width));
  x = relu(net, linear(net, "fc2", x, width));
  const Value logits = linear(net, "fc3", x, 10);
  return classify(std::move(net), logits);
}

Model build_lenet(const NetOptions& options, Size size) {
  const bool full = size == Size::full;
  Net net(options);
  const auto squash = [&](Value x) { return program::tanh(net.b, x); };
  const auto halve = [&](Value x) { return program::avg_pool(net.b, x, {.kernel = {2}}); };
  Value x = net.input("x", {Net::batch(), 1, full ? 28 : 12, full ? 28 : 12});
  x = halve(squash(conv2d(net, "conv1", x, full ? 6 : 3, 5, {.padding = 2})));
  x = halve(squash(conv2d(net, "conv2", x, full ? 16 : 4, 5)));
  x = squash(linear(net, "fc1", program::flatten(net.b, x), full ? 120 : 8));
  x = squash(linear(net, "fc2", x, full ? 84 : 6));
  const Value logits = linear(net, "fc3", x, 10);
  return classify(std::move(net), logits);
}

}  // namespace plimsoll::models
