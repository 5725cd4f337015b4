// U-Net (Ronneberger, Fischer, Brox: "U-Net: Convolutional Networks for Biomedical Image Segmentation", 2015), with
// padded convolutions, so that the answer is as large as the image and nothing is cropped.
#include <fmt/format.h>

#include <array>
#include <vector>

#include "plimsoll/models/zoo/families.h"
#include "plimsoll/program/ops/slice.h"

namespace plimsoll::models {
namespace {

using program::Scope;

Value double_conv(Net& net, std::string_view name, Value x, int64_t out) {
  const Scope scope(net.b, name);
  x = relu(net, conv2d(net, "conv1", x, out, 3, {.padding = 1}));
  return relu(net, conv2d(net, "conv2", x, out, 3, {.padding = 1}));
}

Model unet(const NetOptions& options, int64_t image, int64_t width, int depth) {
  Net net(options);
  Value x = net.input("x", {Net::batch(), 1, image, image});
  std::vector<Value> skips;
  for (int level = 0; level < depth; ++level) {
    skips.push_back(double_conv(net, fmt::format("down{}", level + 1), x, width << level));
    x = max_pool(net, skips.back(), 2, 2);
  }
  x = double_conv(net, "bottom", x, width << depth);
  for (int level = depth - 1; level >= 0; --level) {
    const Value raised = up_conv2d(net, fmt::format("up{}.up", level + 1), x, width << level);
    const std::array both = {skips[static_cast<size_t>(level)], raised};
    x = double_conv(net, fmt::format("up{}", level + 1), program::concat(net.b, both, 1), width << level);
  }
  const Value logits = conv2d(net, "head", x, 2, 1);
  return classify(std::move(net), logits, 1);
}

}  // namespace

Model build_unet(const NetOptions& options, Size size) {
  return size == Size::full ? unet(options, 256, 64, 4) : unet(options, 8, 2, 2);
}

}  // namespace plimsoll::models
