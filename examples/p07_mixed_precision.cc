// P7: mixed precision does not halve the memory of training. Activations do shrink by half; but the weights are kept
// twice, f32 masters for the optimizer and a copy in bf16 or f16 to compute with, the moments of Adam stay f32, and f16
// scales its loss, so no gradient is free before all are known. What is left is told to the byte, and then trained.
#include <fmt/format.h>

#include <cmath>

#include "plimsoll/base/bytes.h"
#include "plimsoll/memory/limits.h"
#include "plimsoll/models/step.h"
#include "plimsoll/plan/estimate.h"
#include "plimsoll/run/session.h"
#include "plimsoll/train/initialize.h"
#include "plimsoll/train/trainer.h"

namespace {

using namespace plimsoll;

struct Trained {
  plan::Estimate predicted;
  int64_t arena_bytes = 0;
  float first = 0;
  float last = 0;

  int64_t total(Category category) const { return predicted.total[static_cast<size_t>(category)]; }
};

Trained train_in(DType precision, int64_t batch) {
  const models::Step step =
      models::build_whole_step(models::find_model("resnet18"),
                               {.precision = precision, .sizes = {{"batch", batch}}, .size = models::Size::small});
  Trained trained{.predicted = plan::estimate(kernels::prepare(step.program))};
  run::Session session(step.program, {}, machine_budget());
  run::Executor& executor = session.executor();
  trained.arena_bytes = executor.arena_bytes();
  for (size_t i = 0; i < step.inits.size(); ++i) {  // all weights that are trained are f32
    train::start_value(executor, step.program.parameters[i], step.inits[i], 1, i);
  }
  train::Trainer trainer(executor, {});
  trained.first = trained.last = trainer.step();
  for (int i = 0; i < 20; ++i) trained.last = trainer.step();
  return trained;
}

void print(DType precision, const Trained& trained) {
  fmt::print("{:<5} {:>12} {:>12} {:>12} {:>14}   loss {:.4f} to {:.4f}\n", name(precision),
             format_count(trained.total(Category::parameter)), format_count(trained.total(Category::optimizer_state)),
             format_count(trained.total(Category::activation)), format_count(trained.arena_bytes), trained.first,
             trained.last);
}

}  // namespace

int main() {
  constexpr int64_t kBatch = 16;
  fmt::print("bytes {:>12} {:>12} {:>12} {:>14}\n", "weights", "moments", "activations", "whole arena");
  const Trained wide = train_in(DType::f32, kBatch);
  print(DType::f32, wide);
  bool right = true;
  for (const DType precision : {DType::bf16, DType::f16}) {
    const Trained half = train_in(precision, kBatch);
    print(precision, half);
    right = right && half.predicted.peak_bytes == half.arena_bytes && half.last < half.first &&
            std::abs(half.last - wide.last) < 0.1F * wide.first &&
            half.total(Category::parameter) > wide.total(Category::parameter);
  }
  return right ? 0 : 1;
}
