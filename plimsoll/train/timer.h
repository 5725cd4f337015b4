// How long something takes on a machine that others use, too.
#pragma once

#include <functional>

namespace plimsoll::train {

// One run of a task.
struct Timed {
  double wall_s = 0;
  double thread_s = 0;  // processor time of the thread that called it
  // How long the thread of this process that was held up the most could have run, but others had the processor.
  double waited_s = 0;

  // What it would have taken alone. On one thread that is processor time.
  double alone_s(int threads) const;
  // Whether it was held up so little that this is as good as measured alone.
  bool is_quiet() const;
};

// Runs a task once. Tests have their own, with a clock that they control.
using Timer = std::function<Timed(const std::function<void()>& task)>;

// By the clocks of the machine; what threads waited for as the scheduler tells it, and where it does not, as processor
// time and involuntary context switches show it.
Timed time_on_machine(const std::function<void()>& task);

}  // namespace plimsoll::train
