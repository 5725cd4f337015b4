// How long it takes to know what a training step will take: the program built, differentiated, bound and estimated;
// and the memory that a program takes for each of its ops. All on one thread; times are the least of several runs.
#include <fmt/format.h>
#include <malloc.h>

#include <algorithm>
#include <ctime>
#include <functional>

#include "plimsoll/models/step.h"
#include "plimsoll/plan/estimate.h"

namespace {

using namespace plimsoll;

struct Case {
  std::string_view model;
  double limit_ms;
};

constexpr Case kCases[] = {{"resnet50", 50}, {"gpt2-xl", 200}};
constexpr int kRuns = 7;
constexpr int64_t kMostBytesPerOp = 2048;

struct Times {
  double build_ms = 1e9;
  double differentiate_ms = 1e9;
  double bind_ms = 1e9;
  double estimate_ms = 1e9;
  double total_ms = 1e9;
};

// Of this thread's processor time, so that other work on the machine does not count.
double now_ms() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) * 1e3 + static_cast<double>(now.tv_nsec) / 1e6;
}

double milliseconds(const std::function<void()>& work) {
  const double start = now_ms();
  work();
  return now_ms() - start;
}

Times measure_once(const models::ModelInfo& info) {
  models::Model model;
  program::Program step;
  program::Program bound;
  Times times;
  times.build_ms = milliseconds([&] { model = info.build({}, models::Size::full); });
  times.differentiate_ms = milliseconds([&] { step = program::training_step(std::move(model.program), model.loss); });
  times.bind_ms = milliseconds([&] { bound = program::bind(step, info.usual); });
  times.estimate_ms = milliseconds([&] { plan::estimate(bound); });
  times.total_ms = times.build_ms + times.differentiate_ms + times.bind_ms + times.estimate_ms;
  return times;
}

Times measure(const models::ModelInfo& info) {
  Times least;
  for (int i = 0; i < kRuns; ++i) {
    const Times times = measure_once(info);
    least.build_ms = std::min(least.build_ms, times.build_ms);
    least.differentiate_ms = std::min(least.differentiate_ms, times.differentiate_ms);
    least.bind_ms = std::min(least.bind_ms, times.bind_ms);
    least.estimate_ms = std::min(least.estimate_ms, times.estimate_ms);
    least.total_ms = std::min(least.total_ms, times.total_ms);
  }
  return least;
}

int64_t allocated_bytes() {
  const struct mallinfo2 info = mallinfo2();
  return static_cast<int64_t>(info.uordblks + info.hblkhd);
}

struct Footprint {
  int64_t ops = 0;
  int64_t bytes_per_op = 0;
};

// Of the whole bound step, with all that its values and ops hold.
Footprint footprint(const models::ModelInfo& info) {
  const int64_t before = allocated_bytes();
  const program::Program step = models::build_step(info);
  const auto ops = static_cast<int64_t>(step.ops.size());
  return {ops, (allocated_bytes() - before) / ops};
}

}  // namespace

int main() {
  bool within = true;
  fmt::print("{:<12} {:>6} {:>9} {:>14} {:>8} {:>12} {:>9} {:>9} {:>10} {:>8}\n", "train step", "ops", "build ms",
             "differentiate", "bind", "estimate", "total ms", "limit ms", "bytes/op", "limit");
  for (const Case& c : kCases) {
    const models::ModelInfo& info = models::find_model(c.model);
    const Times times = measure(info);
    const Footprint memory = footprint(info);
    fmt::print("{:<12} {:>6} {:>9.2f} {:>14.2f} {:>8.2f} {:>12.2f} {:>9.2f} {:>9.0f} {:>10} {:>8}\n", c.model,
               memory.ops, times.build_ms, times.differentiate_ms, times.bind_ms, times.estimate_ms, times.total_ms,
               c.limit_ms, memory.bytes_per_op, kMostBytesPerOp);
    within = within && times.total_ms <= c.limit_ms && memory.bytes_per_op <= kMostBytesPerOp;
  }
  return within ? 0 : 1;
}
