// Residual networks (He, Zhang, Ren, Sun: "Deep Residual Learning for Image Recognition", 2015), with the stride of a
// bottleneck at its 3x3 convolution as torchvision has it.
#include <fmt/format.h>

#include <array>

#include "plimsoll/models/zoo/families.h"
#include "plimsoll/program/ops/elementwise_binary.h"

namespace plimsoll::models {
namespace {

using program::Scope;

struct Config {
  bool bottleneck = false;
  std::array<int, 4> blocks = {2, 2, 2, 2};
  int64_t width = 64;  // of the first stage; doubled in each
  int64_t image = 224;
  int64_t classes = 1000;
};

Value conv_norm(Net& net, int number, Value x, int64_t out, int64_t kernel, int64_t stride = 1) {
  const ConvOptions options = {.stride = stride, .padding = kernel / 2, .bias = false};
  x = conv2d(net, fmt::format("conv{}", number), x, out, kernel, options);
  return batch_norm(net, fmt::format("bn{}", number), x);
}

// x where the block keeps its shape, else a 1x1 convolution of it.
Value shortcut(Net& net, Value x, int64_t out, int64_t stride) {
  if (stride == 1 && net.b.shape(x)[1] == out) return x;
  const Scope scope(net.b, "downsample");
  return batch_norm(net, "1", conv2d(net, "0", x, out, 1, {.stride = stride, .bias = false}));
}

Value basic_block(Net& net, Value x, int64_t width, int64_t stride) {
  Value y = relu(net, conv_norm(net, 1, x, width, 3, stride));
  y = conv_norm(net, 2, y, width, 3);
  return relu(net, program::add(net.b, y, shortcut(net, x, width, stride)));
}

Value bottleneck_block(Net& net, Value x, int64_t width, int64_t stride) {
  Value y = relu(net, conv_norm(net, 1, x, width, 1));
  y = relu(net, conv_norm(net, 2, y, width, 3, stride));
  y = conv_norm(net, 3, y, 4 * width, 1);
  return relu(net, program::add(net.b, y, shortcut(net, x, 4 * width, stride)));
}

Model resnet(const NetOptions& options, const Config& config) {
  Net net(options);
  Value x = net.input("x", {Net::batch(), 3, config.image, config.image});
  x = max_pool(net, relu(net, conv_norm(net, 1, x, config.width, 7, 2)), 3, 2, 1);
  for (int stage = 0; stage < 4; ++stage) {
    const Scope layer(net.b, fmt::format("layer{}", stage + 1));
    for (int block = 0; block < config.blocks[static_cast<size_t>(stage)]; ++block) {
      const Scope scope(net.b, fmt::format("{}", block));
      const int64_t stride = stage > 0 && block == 0 ? 2 : 1;
      x = (config.bottleneck ? bottleneck_block : basic_block)(net, x, config.width << stage, stride);
    }
  }
  const Value logits = linear(net, "fc", global_avg_pool(net, x), config.classes);
  return classify(std::move(net), logits);
}

}  // namespace

Model build_resnet18(const NetOptions& options, Size size) {
  if (size == Size::full) return resnet(options, {});
  return resnet(options, {.blocks = {1, 1, 1, 1}, .width = 3, .image = 17, .classes = 7});
}

Model build_resnet50(const NetOptions& options, Size size) {
  if (size == Size::full) return resnet(options, {.bottleneck = true, .blocks = {3, 4, 6, 3}});
  return resnet(options, {.bottleneck = true, .blocks = {1, 2, 1, 1}, .width = 2, .image = 17, .classes = 7});
}

}  // namespace plimsoll::models
