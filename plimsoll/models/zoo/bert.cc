// BERT-base with the head of masked language modelling (Devlin, Chang, Lee, Toutanova: "BERT: Pre-training of Deep
// Bidirectional Transformers for Language Understanding", 2018). The table of tokens is also the last layer, which has
// a bias of its own. Targets of -100 are not masked and count for nothing.
#include <fmt/format.h>

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

constexpr double kEps = 1e-12;
const LinearOptions kLinear = {.init = kTransformerInit};

Value embeddings(Net& net, Value words, const Config& config) {
  const Scope scope(net.b, "embeddings");
  const Value table = embedding_table(net, "position_embeddings", config.positions, config.width, kTransformerInit);
  const Value kinds = embedding_table(net, "token_type_embeddings", 2, config.width, kTransformerInit);
  const Value tokens = net.indices("tokens", {Net::batch(), Net::sequence()});
  const Value token_types = net.indices("token_types", {Net::batch(), Net::sequence()});
  Value x = add(net.b, program::embedding(net.b, words, tokens), program::embedding(net.b, kinds, token_types));
  x = add(net.b, x, program::slice(net.b, table, {.axis = 0, .end = Net::sequence()}));
  return dropout(net, layer_norm(net, "LayerNorm", x, kEps), config.dropout);
}

Value attention(Net& net, Value x, const Config& config) {
  const Scope scope(net.b, "attention");
  const auto project = [&](std::string_view name) {
    return linear(net, fmt::format("self.{}", name), x, config.width, kLinear);
  };
  const Value q = project("query");
  const Value k = project("key");
  const Value v = project("value");
  const Value mixed = models::attention(net, q, k, v, {.count = config.heads});
  const Value y = dropout(net, linear(net, "output.dense", mixed, config.width, kLinear), config.dropout);
  return layer_norm(net, "output.LayerNorm", add(net.b, y, x), kEps);
}

Value layer(Net& net, Value x, const Config& config) {
  x = attention(net, x, config);
  Value y = program::gelu(net.b, linear(net, "intermediate.dense", x, 4 * config.width, kLinear));
  y = dropout(net, linear(net, "output.dense", y, config.width, kLinear), config.dropout);
  return layer_norm(net, "output.LayerNorm", add(net.b, y, x), kEps);
}

Value head(Net& net, Value x, Value words, const Config& config) {
  const Scope scope(net.b, "cls.predictions");
  x = program::gelu(net.b, linear(net, "transform.dense", x, config.width, kLinear));
  x = layer_norm(net, "transform.LayerNorm", x, kEps);
  return program::linear(net.b, x, words, net.parameter("bias", {config.tokens}, constant(0)));
}

Model bert(const NetOptions& options, const Config& config) {
  Net net(options);
  Value words;
  Value x;
  {
    const Scope scope(net.b, "bert");
    words = embedding_table(net, "embeddings.word_embeddings", config.tokens, config.width, kTransformerInit);
    x = embeddings(net, words, config);
    for (int i = 0; i < config.layers; ++i) {
      const Scope encoder(net.b, fmt::format("encoder.layer.{}", i));
      x = layer(net, x, config);
    }
  }
  const Value logits = head(net, x, words, config);
  return classify(std::move(net), logits);
}

}  // namespace

Model build_bert_base(const NetOptions& options, Size size) {
  return bert(options, size == Size::full ? Config{.tokens = 30522, .positions = 512} : kSmallTransformer);
}

}  // namespace plimsoll::models
