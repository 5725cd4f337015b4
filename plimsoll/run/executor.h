// Runs a prepared program out of one arena. Addresses are resolved and kernels bound when it is made; a step then runs
// the ops in order, and allocates and decides nothing. Same program, data, thread count and machine: same bits.
//
//   Lowered lowered = prepare(program);
//   MemoryPlan plan = plan_memory(lowered);
//   Arena arena(pages, plan.placement.arena_bytes, budget);
//   Executor executor(lowered, plan, arena);
//   .. fill executor.data<float>(parameter) ..
//   executor.step();
//
// Not thread-safe. The arena must outlive it. All memory is as the arena's pages were: zero when they are new.
#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "plimsoll/kernels/prepare.h"
#include "plimsoll/kernels/spill.h"
#include "plimsoll/memory/arena.h"
#include "plimsoll/plan/memory_plan.h"

namespace plimsoll::run {

class Executor {
 public:
  // ArgumentError when the arena is smaller than the plan.
  Executor(kernels::Lowered lowered, plan::MemoryPlan plan, Arena& arena);

  // ArgumentError from an op whose operands make no sense (an index out of range), SystemError from a disk that is
  // full; the step is then half done, and nothing of it goes on.
  void step();

  // From now on steps measure how long each op takes.
  void time_ops() { op_seconds_.assign(lowered_.program.ops.size(), 0.0); }
  // Of each op, in the last step; 0 for those that do nothing. Empty when that is not measured.
  const std::vector<double>& op_seconds() const { return op_seconds_; }

  const program::Program& program() const { return lowered_.program; }
  const plan::MemoryPlan& memory() const { return plan_; }
  int64_t arena_bytes() const { return plan_.placement.arena_bytes; }
  size_t tasks() const { return tasks_.size(); }
  int threads() const { return lowered_.threads; }

  // The elements of an input, a parameter, state, or after a step an output: what is there when no op runs. T must be
  // the size of the value's elements, and the value contiguous; ArgumentError otherwise.
  template <class T>
  std::span<T> data(program::Value value) {
    return {reinterpret_cast<T*>(checked_data(value, sizeof(T))), static_cast<size_t>(elements(value))};
  }
  // The same as bytes.
  std::span<std::byte> bytes(program::Value value);

 private:
  std::byte* at(program::Value value) const;
  std::byte* checked_data(program::Value value, size_t element_size) const;
  int64_t elements(program::Value value) const;
  void run_tasks();
  kernels::Memory memory_of(int32_t op) const;

  kernels::Lowered lowered_;
  plan::MemoryPlan plan_;
  Arena& arena_;
  std::shared_ptr<SpillFile> spill_file_ = kernels::spill_file();  // that the kernels were bound with
  std::vector<kernels::Task> tasks_;                               // of the ops that do something, in order
  std::vector<size_t> task_ops_;                                   // the op of each task
  std::vector<double> op_seconds_;                                 // empty: not measured
};

}  // namespace plimsoll::run
