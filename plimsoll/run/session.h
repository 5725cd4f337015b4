// Programs ready to run in memory of their own on a device: prepared, planned, their arena taken, their kernels bound.
#pragma once

#include <deque>
#include <memory>

#include "plimsoll/run/executor.h"

namespace plimsoll::run {

// A program as an executor takes it.
struct Planned {
  kernels::Lowered lowered;
  plan::MemoryPlan memory;

  int64_t arena_bytes() const { return memory.placement.arena_bytes; }
};

// Prepared and placed as it is. UnsupportedError from prepare.
Planned plan_as_it_is(program::Program program, const kernels::DeviceOptions& device);

class Session {
 public:
  // ResourceExhausted, with nothing taken, when the arena is above the budget.
  Session(program::Program program, const kernels::DeviceOptions& device, const Budget& budget);

  // Programs of one device that take turns in one arena, as large as the largest of them needs it. They keep the same
  // parameters and state, at the same offsets; ArgumentError names the first that is not so.
  // Without pages kernels are bound to addresses alone, and nothing runs before take_pages(), which throws
  // ResourceExhausted where the device has less.
  Session(std::vector<Planned> programs, const Budget& budget, Arena::Pages pages = Arena::Pages::now);
  void take_pages() { arena_.take_pages(); }

  // Another program that takes turns with these, such as one that evaluates: what it keeps, it keeps under the same
  // names at the same offsets, and it stays within the arena; ArgumentError otherwise. It ends before the session.
  std::unique_ptr<Executor> join(Planned planned);

  Executor& executor(size_t i = 0) { return executors_[i]; }
  size_t executors() const { return executors_.size(); }
  int64_t arena_bytes() const { return arena_.bytes(); }

 private:
  device::Device& device_;
  std::unique_ptr<PageSource> pages_;
  Arena arena_;
  std::shared_ptr<device::Stream> stream_;
  std::deque<Executor> executors_;
};

}  // namespace plimsoll::run
