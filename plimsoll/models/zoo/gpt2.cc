// GPT-2 (Radford, Wu, Child, Luan, Amodei, Sutskever: "Language Models are Unsupervised Multitask Learners", 2019).
// The table of tokens is also the last layer. Weights are [out, in], the transpose of what the published files hold.
#include <fmt/format.h>

#include <cmath>

#include "plimsoll/models/zoo/families.h"
#include "plimsoll/models/zoo/transformer.h"
#include "plimsoll/program/ops/elementwise_binary.h"
#include "plimsoll/program/ops/elementwise_unary.h"
#include "plimsoll/program/ops/index.h"
#include "plimsoll/program/ops/linear.h"
#include "plimsoll/program/ops/slice.h"

namespace plimsoll::models {
namespace {

using program::add;
using program::Scope;

using Config = TransformerSizes;

Value attention(Net& net, Value x, const Config& config, const LinearOptions& into_stream) {
  const Scope scope(net.b, "attn");
  const Value qkv = linear(net, "c_attn", x, 3 * config.width, {.init = kTransformerInit});
  const Value y = self_attend(net, qkv, {.count = config.heads, .causal = true});
  return dropout(net, linear(net, "c_proj", y, config.width, into_stream), config.dropout);
}

Value mlp(Net& net, Value x, const Config& config, const LinearOptions& into_stream) {
  const Scope scope(net.b, "mlp");
  const Value y = program::gelu_tanh(net.b, linear(net, "c_fc", x, 4 * config.width, {.init = kTransformerInit}));
  return dropout(net, linear(net, "c_proj", y, config.width, into_stream), config.dropout);
}

Value block(Net& net, Value x, const Config& config) {
  // What goes into the residual stream starts smaller the more layers add to it.
  const LinearOptions into_stream = {.init = normal(kTransformerInit.scale / std::sqrt(2.0 * config.layers))};
  x = add(net.b, x, attention(net, layer_norm(net, "ln_1", x), config, into_stream));
  return add(net.b, x, mlp(net, layer_norm(net, "ln_2", x), config, into_stream));
}

}  // namespace

Model build_gpt2_of(const NetOptions& options, const Config& config) {
  Net net(options);
  const Value tokens = net.indices("tokens", {Net::batch(), Net::sequence()});
  const Value wte = embedding_table(net, "wte", config.tokens, config.width, kTransformerInit);
  const Value wpe = embedding_table(net, "wpe", config.positions, config.width, kTransformerInit);
  const Value positions = program::slice(net.b, wpe, {.axis = 0, .end = Net::sequence()});
  Value x = dropout(net, add(net.b, program::embedding(net.b, wte, tokens), positions), config.dropout);
  for (int layer = 0; layer < config.layers; ++layer) {
    const Scope scope(net.b, fmt::format("h.{}", layer));
    x = block(net, x, config);
  }
  const Value logits = program::linear(net.b, layer_norm(net, "ln_f", x), wte);
  return classify(std::move(net), logits);
}

namespace {

Model sized(const NetOptions& options, Size size, int layers, int64_t heads, int64_t width) {
  const Config full = {.tokens = 50257, .positions = 1024, .layers = layers, .heads = heads, .width = width};
  return build_gpt2_of(options, size == Size::full ? full : kSmallTransformer);
}

}  // namespace

Model build_gpt2_nano(const NetOptions& options, Size size) { return sized(options, size, 3, 3, 48); }

Model build_gpt2(const NetOptions& options, Size size) { return sized(options, size, 12, 12, 768); }

Model build_gpt2_medium(const NetOptions& options, Size size) { return sized(options, size, 24, 16, 1024); }

Model build_gpt2_large(const NetOptions& options, Size size) { return sized(options, size, 36, 20, 1280); }

Model build_gpt2_xl(const NetOptions& options, Size size) { return sized(options, size, 48, 25, 1600); }

}  // namespace plimsoll::models
