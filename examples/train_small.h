// Trains a small form of a reference program for a few steps, in an arena whose size was known before the first.
#pragma once

#include <fmt/format.h>

#include <string_view>

#include "plimsoll/memory/limits.h"
#include "plimsoll/models/step.h"
#include "plimsoll/plan/estimate.h"
#include "plimsoll/run/session.h"
#include "plimsoll/train/initialize.h"
#include "plimsoll/train/trainer.h"

// What main returns: 0 when the arena was as predicted and the loss fell.
inline int train_small(std::string_view model) {
  using namespace plimsoll;
  const models::Step step =
      models::build_whole_step(models::find_model(model), {.sizes = {{"batch", 3}}, .size = models::Size::small});
  const int64_t predicted = plan::estimate(kernels::prepare(step.program)).peak_bytes;
  run::Session session(step.program, {}, machine_budget());
  run::Executor& executor = session.executor();
  for (size_t i = 0; i < step.inits.size(); ++i) {
    train::start_value(executor, step.program.parameters[i], step.inits[i], 1, i);
  }
  train::Trainer trainer(executor, {});
  const float first = trainer.step();
  float last = first;
  for (int i = 0; i < 20; ++i) last = trainer.step();
  fmt::print("predicted {} bytes, ran in {}; loss {:.4f} to {:.4f}\n", predicted, executor.arena_bytes(), first, last);
  return predicted == executor.arena_bytes() && last < first ? 0 : 1;
}
