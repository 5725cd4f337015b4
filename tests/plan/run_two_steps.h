// Runs a training step as a plan says, for tests that compare plans bit for bit.
#pragma once

#include <gtest/gtest.h>

#include <vector>

#include "plimsoll/models/step.h"
#include "plimsoll/plan/memory_plan.h"
#include "plimsoll/run/session.h"
#include "plimsoll/train/initialize.h"
#include "plimsoll/train/trainer.h"

namespace plimsoll::plan {

// The bytes of everything that is there after two steps: losses, parameters, state.
inline std::vector<std::byte> run_two_steps(const models::Step& step, const kernels::Lowered& lowered,
                                            const MemoryPlan& memory) {
  const auto pages = device::find_device(lowered.device).pages(memory.placement.arena_bytes);
  Arena arena(*pages, memory.placement.arena_bytes, {INT64_MAX, "test"});
  run::Executor executor(lowered, memory, arena);
  EXPECT_EQ(executor.arena_bytes(), memory.placement.arena_bytes);
  const program::Program& program = step.program;
  for (size_t i = 0; i < step.inits.size(); ++i) {
    train::start_value(executor, program.parameters[i], step.inits[i], 1, i);
  }
  for (size_t i = 0; i < step.state_inits.size(); ++i) {
    train::start_value(executor, program.state[i], step.state_inits[i], 1, 1000 + i);
  }
  train::Trainer trainer(executor, {.rate = 1e-2});
  std::vector<std::byte> bytes;
  const auto add = [&bytes](std::span<const float> data) {
    const auto* first = reinterpret_cast<const std::byte*>(data.data());
    bytes.insert(bytes.end(), first, first + data.size_bytes());
  };
  for (int i = 0; i < 2; ++i) add(std::vector{trainer.step()});
  for (const auto* list : {&program.parameters, &program.state}) {
    for (const program::Value value : *list) {
      if (program[value].type.dtype == DType::f32) add(executor.read<float>(value));
    }
  }
  return bytes;
}

}  // namespace plimsoll::plan
