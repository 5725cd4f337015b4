// MobileNet-v2 (Sandler, Howard, Zhu, Zhmoginov, Chen: "MobileNetV2: Inverted Residuals and Linear Bottlenecks", 2018).
#include <fmt/format.h>

#include <vector>

#include "plimsoll/models/zoo/families.h"
#include "plimsoll/program/ops/elementwise_binary.h"
#include "plimsoll/program/ops/elementwise_unary.h"

namespace plimsoll::models {
namespace {

using program::Scope;

// A line of table 2 of the paper: `repeats` blocks to `width` channels, the first with this stride.
struct Stage {
  int64_t expansion;
  int64_t width;
  int repeats;
  int64_t stride;
};

struct Config {
  std::vector<Stage> stages;
  int64_t first = 32;
  int64_t last = 1280;
  int64_t image = 224;
  int64_t classes = 1000;
};

Value conv_norm_relu6(Net& net, int number, Value x, int64_t out, int64_t kernel, int64_t stride, int64_t groups = 1) {
  const Scope scope(net.b, fmt::format("{}", number));
  const ConvOptions options = {.stride = stride, .padding = kernel / 2, .groups = groups, .bias = false};
  return program::relu6(net.b, batch_norm(net, "1", conv2d(net, "0", x, out, kernel, options)));
}

Value inverted_residual(Net& net, Value x, int64_t expansion, int64_t out, int64_t stride) {
  const Scope scope(net.b, "conv");
  const int64_t in = net.b.shape(x)[1].constant();
  int number = 0;
  Value y = x;
  if (expansion > 1) y = conv_norm_relu6(net, number++, y, in * expansion, 1, 1);
  y = conv_norm_relu6(net, number++, y, in * expansion, 3, stride, in * expansion);
  y = conv2d(net, fmt::format("{}", number++), y, out, 1, {.bias = false});
  y = batch_norm(net, fmt::format("{}", number), y);
  return stride == 1 && in == out ? program::add(net.b, x, y) : y;
}

Value features(Net& net, Value x, const Config& config) {
  const Scope scope(net.b, "features");
  int number = 0;
  x = conv_norm_relu6(net, number++, x, config.first, 3, 2);
  for (const Stage& stage : config.stages) {
    for (int i = 0; i < stage.repeats; ++i) {
      const Scope block(net.b, fmt::format("{}", number++));
      x = inverted_residual(net, x, stage.expansion, stage.width, i == 0 ? stage.stride : 1);
    }
  }
  return conv_norm_relu6(net, number, x, config.last, 1, 1);
}

Model mobilenet(const NetOptions& options, const Config& config) {
  Net net(options);
  Value x = net.input("x", {Net::batch(), 3, config.image, config.image});
  x = dropout(net, global_avg_pool(net, features(net, x, config)), 0.2);
  const Value logits = linear(net, "classifier.1", x, config.classes);
  return classify(std::move(net), logits);
}

}  // namespace

Model build_mobilenet_v2(const NetOptions& options, Size size) {
  if (size == Size::small) {
    return mobilenet(options,
                     {.stages = {{1, 3, 1, 1}, {2, 3, 2, 2}}, .first = 4, .last = 5, .image = 11, .classes = 7});
  }
  return mobilenet(
      options,
      {.stages = {
           {1, 16, 1, 1}, {6, 24, 2, 2}, {6, 32, 3, 2}, {6, 64, 4, 2}, {6, 96, 3, 1}, {6, 160, 3, 2}, {6, 320, 1, 1}}});
}

}  // namespace plimsoll::models
