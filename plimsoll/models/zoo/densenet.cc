// DenseNet-121 (Huang, Liu, van der Maaten, Weinberger: "Densely Connected Convolutional Networks", 2016).
#include <fmt/format.h>

#include <vector>

#include "plimsoll/models/zoo/families.h"
#include "plimsoll/program/ops/pool.h"
#include "plimsoll/program/ops/slice.h"

namespace plimsoll::models {
namespace {

using program::Scope;

struct Config {
  std::vector<int> blocks = {6, 12, 24, 16};
  int64_t growth = 32;
  int64_t first = 64;
  int64_t image = 224;
  int64_t classes = 1000;
};

// Normalise, activate, convolve without bias.
Value norm_relu_conv(Net& net, int number, Value x, int64_t out, int64_t kernel) {
  x = relu(net, batch_norm(net, fmt::format("norm{}", number), x));
  return conv2d(net, fmt::format("conv{}", number), x, out, kernel, {.padding = kernel / 2, .bias = false});
}

// Each layer reads all that was made before it in the block, and adds `growth` channels.
Value dense_block(Net& net, Value x, int layers, int64_t growth) {
  std::vector<Value> features = {x};
  for (int i = 0; i < layers; ++i) {
    const Scope scope(net.b, fmt::format("denselayer{}", i + 1));
    const Value seen = features.size() == 1 ? x : program::concat(net.b, features, 1);
    features.push_back(norm_relu_conv(net, 2, norm_relu_conv(net, 1, seen, 4 * growth, 1), growth, 3));
  }
  return program::concat(net.b, features, 1);
}

// Halves channels, height and width.
Value transition(Net& net, Value x) {
  const int64_t half = net.b.shape(x)[1].constant() / 2;
  x = conv2d(net, "conv", relu(net, batch_norm(net, "norm", x)), half, 1, {.bias = false});
  return program::avg_pool(net.b, x, {.kernel = {2}});
}

Value features(Net& net, Value x, const Config& config) {
  const Scope scope(net.b, "features");
  x = conv2d(net, "conv0", x, config.first, 7, {.stride = 2, .padding = 3, .bias = false});
  x = max_pool(net, relu(net, batch_norm(net, "norm0", x)), 3, 2, 1);
  for (size_t i = 0; i < config.blocks.size(); ++i) {
    {
      const Scope block(net.b, fmt::format("denseblock{}", i + 1));
      x = dense_block(net, x, config.blocks[i], config.growth);
    }
    if (i + 1 == config.blocks.size()) break;
    const Scope between(net.b, fmt::format("transition{}", i + 1));
    x = transition(net, x);
  }
  return relu(net, batch_norm(net, "norm5", x));
}

Model densenet(const NetOptions& options, const Config& config) {
  Net net(options);
  const Value x = net.input("x", {Net::batch(), 3, config.image, config.image});
  const Value logits = linear(net, "classifier", global_avg_pool(net, features(net, x, config)), config.classes);
  return classify(std::move(net), logits);
}

}  // namespace

Model build_densenet121(const NetOptions& options, Size size) {
  if (size == Size::full) return densenet(options, {});
  return densenet(options, {.blocks = {2, 3}, .growth = 2, .first = 4, .image = 16, .classes = 7});
}

}  // namespace plimsoll::models
