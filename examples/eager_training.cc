// Trains a small classifier eagerly: the example of docs/eager.md.
#include <fmt/format.h>

#include "plimsoll/base/bytes.h"
#include "plimsoll/models/init.h"
#include "plimsoll/program/ops/linear.h"
#include "plimsoll/program/ops/loss.h"
#include "plimsoll/run/eager/host.h"
#include "plimsoll/run/eager/optimizer.h"

using namespace plimsoll;
using eager::Tensor;

int main() {
  eager::Host host({2 * kMiB, "this example"});
  eager::Context& context = host.context();

  Tensor w1 = context.parameter("w1", {DType::f32, {32, 2}});
  Tensor b1 = context.parameter("b1", {DType::f32, {32}});
  Tensor w2 = context.parameter("w2", {DType::f32, {2, 32}});
  Tensor b2 = context.parameter("b2", {DType::f32, {2}});
  w1.fill<float>([](std::span<float> into) { models::draw(models::fan_in(2), into, 1, 0); });
  w2.fill<float>([](std::span<float> into) { models::draw(models::fan_in(32), into, 1, 1); });

  std::vector<float> points(2 * 256);
  models::draw(models::uniform(1), points, 1, 2);
  std::vector<int64_t> classes;
  for (size_t i = 0; i < 256; ++i) {  // inside the circle or not
    classes.push_back(points[2 * i] * points[2 * i] + points[2 * i + 1] * points[2 * i + 1] < 0.5F ? 1 : 0);
  }
  const Tensor x = context.from({256, 2}, points);
  const Tensor target = context.from({256}, classes);

  eager::Adam adam(context, {w1, b1, w2, b2}, {.rate = 0.03});
  float first = 0;
  float last = 0;
  for (int step = 0; step < 150; ++step) {
    const Tensor hidden = eager::call(program::linear, x, w1, b1).relu();
    const Tensor logits = eager::call(program::linear, hidden, w2, b2);
    const Tensor loss = eager::call(program::cross_entropy, logits, target, program::CrossEntropyOptions{});
    loss.backward();
    adam.step();
    adam.clear_grads();
    last = loss.item();
    if (step == 0) first = last;
  }

  const eager::NoGrad no_grad(context);  // nothing is kept from here on
  const Tensor hidden = eager::call(program::linear, x, w1, b1).relu();
  const Tensor logits = eager::call(program::linear, hidden, w2, b2);
  const Tensor right = eager::apply("eq", {eager::apply("argmax", {logits}), target}).cast(DType::f32).mean();
  fmt::print("loss {:.3f} to {:.3f}, {:.0f} % right, at most {} in use\n", first, last, 100 * right.item(),
             format_bytes(host.pool().stats().live_peak_bytes));
  return last < first / 3 && right.item() > 0.9F ? 0 : 1;
}
