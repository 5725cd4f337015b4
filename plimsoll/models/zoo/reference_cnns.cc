// The convolutional nets of the reference programs: plain stacks that are known for running out of memory.
#include <fmt/format.h>

#include "plimsoll/models/zoo/families.h"
#include "plimsoll/program/ops/shape.h"
#include "plimsoll/program/ops/softmax.h"

namespace plimsoll::models {
namespace {

// 3x3, keeping height and width.
Value conv_relu(Net& net, std::string_view name, Value x, int64_t channels) {
  return relu(net, conv2d(net, name, x, channels, 3, {.padding = 1}));
}

// Two convolutions to each of the widths, halving the image between them.
Model wide_cnn(const NetOptions& options, int64_t image, std::initializer_list<int64_t> widths) {
  Net net(options);
  Value x = net.input("x", {Net::batch(), 3, image, image});
  int layer = 0;
  for (const int64_t width : widths) {
    if (layer > 0) x = max_pool(net, x, 2, 2);
    for (int i = 0; i < 2; ++i) x = conv_relu(net, fmt::format("conv{}", ++layer), x, width);
  }
  const Value y = linear(net, "dense", global_avg_pool(net, x), 10);
  return regress(std::move(net), y);
}

}  // namespace

// The convolution has no padding: 1024 becomes 1022, then 511.
Model build_p11(const NetOptions& options, Size size) {
  const int64_t image = size == Size::full ? 1024 : 10;
  Net net(options);
  Value x = net.input("x", {Net::batch(), 3, image, image});
  x = max_pool(net, relu(net, conv2d(net, "conv", x, size == Size::full ? 32 : 4, 3)), 2, 2);
  const Value logits = linear(net, "dense", program::flatten(net.b, x), 10);
  const Value y = program::softmax(net.b, logits);
  return regress(std::move(net), y);
}

Model build_p13(const NetOptions& options, Size size) {
  return size == Size::full ? wide_cnn(options, 128, {256, 512, 1024}) : wide_cnn(options, 8, {4, 6, 8});
}

Model build_p14(const NetOptions& options, Size size) {
  const bool full = size == Size::full;
  Net net(options);
  Value x = net.input("x", {Net::batch(), 3, full ? 128 : 8, full ? 128 : 8});
  x = max_pool(net, conv_relu(net, "conv1", x, full ? 64 : 4), 2, 2);
  x = conv_relu(net, "conv2", x, full ? 128 : 6);
  const Value y = linear(net, "dense", global_avg_pool(net, x), 10);
  return regress(std::move(net), y);
}

}  // namespace plimsoll::models
