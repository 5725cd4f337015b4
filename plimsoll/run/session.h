// A program ready to run in memory of its own on the host: prepared, planned, its arena taken, its kernels bound.
#pragma once

#include "plimsoll/memory/file_pages.h"
#include "plimsoll/run/executor.h"

namespace plimsoll::run {

class Session {
 public:
  // UnsupportedError from prepare; ResourceExhausted, with nothing taken, when the arena is above the budget.
  Session(program::Program program, const kernels::DeviceOptions& device, const Budget& budget);

  Executor& executor() { return executor_; }

 private:
  struct Planned {
    kernels::Lowered lowered;
    plan::MemoryPlan plan;
  };
  static Planned plan(program::Program program, const kernels::DeviceOptions& device);
  Session(Planned planned, const Budget& budget);

  FilePages pages_;
  Arena arena_;
  Executor executor_;
};

}  // namespace plimsoll::run
