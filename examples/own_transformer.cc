// A small GPT of one's own, from layers alone: trained on a text that repeats, within a memory budget.
#include <plimsoll/plimsoll.h>

#include <iostream>
#include <random>

namespace pl = plimsoll;

constexpr int64_t kTokens = 16;
constexpr int64_t kLength = 32;
constexpr int64_t kWidth = 64;

pl::Value block(pl::Net& net, pl::Value x) {
  x = add(net, x, multi_head_attention(net, "attn", layer_norm(net, "ln_1", x), {.count = 4, .causal = true}));
  pl::Value y = gelu(net, linear(net, "mlp.fc", layer_norm(net, "ln_2", x), 4 * kWidth));
  return add(net, x, linear(net, "mlp.proj", y, kWidth));
}

pl::Model build() {
  pl::Net net;
  auto tokens = net.indices("tokens", {pl::batch, kLength});
  auto positions = embedding_table(net, "positions", kLength, kWidth);
  auto x = add(net, embedding(net, "table", tokens, kTokens, kWidth), positions);
  for (const char* name : {"h.0", "h.1"}) {
    const pl::Scope scope(net.b, name);
    x = block(net, x);
  }
  return classify(std::move(net), linear(net, "head", layer_norm(net, "ln_f", x), kTokens));
}

int main(int argc, char** argv) try {
  constexpr int64_t kBatch = 32;
  const std::string budget = argc > 1 ? argv[1] : "96MiB";
  const std::string device = argc > 2 ? argv[2] : "cpu";
  pl::Training training(
      build(), {.batch = kBatch, .budget = budget, .optimizer = pl::adamw(3e-3, 0.01), .device = device, .threads = 2});
  std::cout << training.plan();

  // Each line counts up from a token of its own in steps of its own: what comes next follows from two tokens.
  std::mt19937 random(1);
  std::vector<int64_t> tokens(kBatch * kLength);
  std::vector<int64_t> next(kBatch * kLength);
  float loss = 0;
  for (int step = 0; step < 60; ++step) {
    for (int64_t line = 0; line < kBatch; ++line) {
      const auto start = static_cast<int64_t>(random() % kTokens);
      const auto stride = static_cast<int64_t>(random() % 4 + 1);
      for (int64_t i = 0; i < kLength; ++i) {
        tokens[line * kLength + i] = (start + i * stride) % kTokens;
        next[line * kLength + i] = (start + (i + 1) * stride) % kTokens;
      }
    }
    loss = training.step(pl::ArrayBatch({{"tokens", tokens}, {"target", next}}));
    if (step % 20 == 0) std::cout << "step " << training.steps() << "  loss " << loss << '\n';
  }
  std::cout << "after " << training.steps() << " steps  loss " << loss << '\n';
  return loss < 0.6F ? 0 : 1;
} catch (const pl::DoesNotFit& error) {
  std::cerr << error.what() << '\n';
  return 1;
}
