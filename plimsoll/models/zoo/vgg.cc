// VGG-16 (Simonyan, Zisserman: "Very Deep Convolutional Networks for Large-Scale Image Recognition", 2014).
// Configuration D; layers carry the numbers that they have in torchvision, where each activation has one, too.
#include <fmt/format.h>

#include <vector>

#include "plimsoll/models/zoo/families.h"
#include "plimsoll/program/ops/pool.h"
#include "plimsoll/program/ops/shape.h"

namespace plimsoll::models {
namespace {

using program::Scope;

constexpr int64_t kPool = 0;

Value features(Net& net, Value x, const std::vector<int64_t>& layers) {
  const Scope scope(net.b, "features");
  int number = 0;
  for (const int64_t width : layers) {
    if (width == kPool) {
      x = max_pool(net, x, 2, 2);
      number += 1;
    } else {
      x = relu(net, conv2d(net, fmt::format("{}", number), x, width, 3, {.padding = 1}));
      number += 2;
    }
  }
  return x;
}

Value classifier(Net& net, Value x, int64_t hidden, int64_t classes) {
  const Scope scope(net.b, "classifier");
  x = dropout(net, relu(net, linear(net, "0", x, hidden)), 0.5);
  x = dropout(net, relu(net, linear(net, "3", x, hidden)), 0.5);
  return linear(net, "6", x, classes);
}

}  // namespace

Model build_vgg16(const NetOptions& options, Size size) {
  const bool full = size == Size::full;
  const std::vector<int64_t> layers = full ? std::vector<int64_t>{64,    64,  kPool, 128, 128,   kPool, 256, 256, 256,
                                                                  kPool, 512, 512,   512, kPool, 512,   512, 512, kPool}
                                           : std::vector<int64_t>{3, 3, kPool, 4, kPool};
  Net net(options);
  Value x = net.input("x", {Net::batch(), 3, full ? 224 : 12, full ? 224 : 12});
  x = program::adaptive_avg_pool(net.b, features(net, x, layers), {full ? 7 : 2});
  const Value logits = classifier(net, program::flatten(net.b, x), full ? 4096 : 9, full ? 1000 : 7);
  return classify(std::move(net), logits);
}

}  // namespace plimsoll::models
