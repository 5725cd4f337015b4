// ViT-B/16 (Dosovitskiy and others: "An Image is Worth 16x16 Words: Transformers for Image Recognition at Scale",
// 2020).
#include <fmt/format.h>

#include <array>

#include "plimsoll/models/zoo/families.h"
#include "plimsoll/models/zoo/transformer.h"
#include "plimsoll/program/ops/elementwise_binary.h"
#include "plimsoll/program/ops/elementwise_unary.h"
#include "plimsoll/program/ops/linear.h"
#include "plimsoll/program/ops/shape.h"
#include "plimsoll/program/ops/slice.h"

namespace plimsoll::models {
namespace {

using program::add;
using program::Scope;

struct Config {
  int64_t image = 224;
  int64_t patch = 16;
  int layers = 12;
  int64_t heads = 12;
  int64_t width = 768;
  int64_t classes = 1000;
};

constexpr double kEps = 1e-6;
const LinearOptions kLinear = {.init = kTransformerInit};

// An image as a sequence: a class token, then one vector for each patch.
Value patches(Net& net, Value x, const Config& config) {
  const int64_t count = (config.image / config.patch) * (config.image / config.patch);
  const Value token = net.parameter("class_token", {1, 1, config.width}, constant(0));
  x = conv2d(net, "conv_proj", x, config.width, config.patch, {.stride = config.patch});
  x = program::transpose(net.b, program::reshape(net.b, x, {Net::batch(), config.width, count}), {0, 2, 1});
  const std::array parts = {program::expand(net.b, token, {Net::batch(), 1, config.width}), x};
  return program::concat(net.b, parts, 1);
}

Value attention(Net& net, Value x, const Config& config) {
  const Scope scope(net.b, "self_attention");
  const Value weight = net.parameter("in_proj_weight", {3 * config.width, config.width}, kTransformerInit);
  const Value bias = net.parameter("in_proj_bias", {3 * config.width}, constant(0));
  const Value y = self_attend(net, program::linear(net.b, x, weight, bias), {.count = config.heads});
  return linear(net, "out_proj", y, config.width, kLinear);
}

Value encoder_layer(Net& net, Value x, const Config& config) {
  x = add(net.b, attention(net, layer_norm(net, "ln_1", x, kEps), config), x);
  Value y = linear(net, "mlp.0", layer_norm(net, "ln_2", x, kEps), 4 * config.width, kLinear);
  y = linear(net, "mlp.3", program::gelu(net.b, y), config.width, kLinear);
  return add(net.b, x, y);
}

Value encoder(Net& net, Value x, const Config& config) {
  const Scope scope(net.b, "encoder");
  const Dims shape = net.b.shape(x);
  x = add(net.b, x, net.parameter("pos_embedding", {1, shape[1], shape[2]}, kTransformerInit));
  for (int i = 0; i < config.layers; ++i) {
    const Scope layer(net.b, fmt::format("layers.encoder_layer_{}", i));
    x = encoder_layer(net, x, config);
  }
  return layer_norm(net, "ln", x, kEps);
}

Model vit(const NetOptions& options, const Config& config) {
  Net net(options);
  const Value image = net.input("x", {Net::batch(), 3, config.image, config.image});
  const Value x = encoder(net, patches(net, image, config), config);
  const Value token = program::slice(net.b, x, {.axis = 1, .end = 1});
  const Value flat = program::reshape(net.b, token, {Net::batch(), config.width});
  const Value logits = linear(net, "heads.head", flat, config.classes, kLinear);
  return classify(std::move(net), logits);
}

}  // namespace

Model build_vit_b_16(const NetOptions& options, Size size) {
  if (size == Size::full) return vit(options, {});
  return vit(options, {.image = 6, .patch = 3, .layers = 2, .heads = 2, .width = 6, .classes = 7});
}

}  // namespace plimsoll::models
