#include "plimsoll/train/measure.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <optional>

#include "plimsoll/base/bytes.h"
#include "plimsoll/device/device.h"
#include "plimsoll/device/threads.h"
#include "plimsoll/kernels/spill.h"
#include "plimsoll/memory/arena.h"
#include "plimsoll/memory/caches.h"
#include "plimsoll/memory/spill_file.h"
#include "plimsoll/program/op.h"
#include "plimsoll/program/ops/collective.h"
#include "plimsoll/program/passes/facts.h"
#include "plimsoll/program/text.h"
#include "plimsoll/train/timing_data.h"

namespace plimsoll::train {
namespace {

using kernels::Lowered;
using plan::CostTable;
using plan::MeasuredOp;
using program::Op;
using program::Value;

constexpr int64_t kMostPageBytes = 2 * kMiB;
constexpr size_t kRuns = 5;                // that are not disturbed, after one that warms up; the median counts
constexpr size_t kTries = 12;              // for them
constexpr double kLongEnough = 0.1;        // seconds of runs after which one more tells nothing new
constexpr double kTooLong = 0.3;           // likewise where all were disturbed
constexpr double kMostCorrected = 4;       // times that a run on several threads may have been longer than alone
constexpr int kEnoughRuns = 3;             // of the process, in which an op was measured
constexpr double kAgainS = 0.2;            // for measuring again what was measured in fewer
constexpr double kSame = 0.05;             // a change of a time that makes no other plan
constexpr int64_t kLeastSwept = 8 * kMiB;  // more than the second caches of a few cores hold
constexpr int64_t kMostSwept = 64 * kMiB;  // which takes some milliseconds
constexpr double kSweepShare = 0.3;        // of the time limit, for sweeps
constexpr int64_t kLeastFresh = 2 * kMiB;  // of what an op before has just made, that the second caches may still hold
constexpr int64_t kMostFresh = 8 * kMiB;   // likewise the last cache

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

double median(std::vector<double> of) {
  std::sort(of.begin(), of.end());
  return of[of.size() / 2];
}

// What several runs of a task say. Nothing when all were held up for most of the time.
struct Measured {
  double seconds = HUGE_VAL;
  bool quiet = false;

  bool is_known() const { return seconds < HUGE_VAL; }
};

// `before` brings the caches into the state that a step leaves them in; it is not timed.
Measured median_of_runs(const std::function<void()>& task, const std::function<void()>& before, int threads,
                        const Timer& timer) {
  double sum = timer(task).wall_s;
  std::vector<double> quiet;
  std::vector<double> corrected;
  for (size_t i = 0; i < kTries && quiet.size() < kRuns; ++i) {
    if (i > 0 && sum > (quiet.empty() ? kTooLong : kLongEnough)) break;
    before();
    const Timed run = timer(task);
    sum += run.wall_s;
    const double alone = run.alone_s(threads);
    const bool says_nothing = threads > 1 && alone * kMostCorrected < run.wall_s;
    if (run.is_quiet()) quiet.push_back(alone);
    if (!run.is_quiet() && !says_nothing) corrected.push_back(alone);
  }
  if (!quiet.empty()) return {median(quiet), true};
  return corrected.empty() ? Measured{} : Measured{median(corrected), false};
}

// By the device's own clock, several runs at a time, so that what the host does between them is hidden.
Measured least_on_device(device::Device& device, device::Stream& stream, const kernels::Task& task) {
  constexpr int kTogether = 4;
  task(stream);
  stream.synchronize();
  Measured best;
  double sum = 0;
  for (size_t i = 0; i < kRuns && sum < kLongEnough; ++i) {
    const auto seconds = device.seconds_of(stream, [&] {
      for (int k = 0; k < kTogether; ++k) task(stream);
    });
    sum += *seconds;
    best = {std::min(best.seconds, *seconds / kTogether), true};
  }
  return best;
}

// The storages of one op side by side.
class Bench {
 public:
  Bench(const Lowered& lowered, int32_t op) : lowered_(lowered), op_(lowered.program.ops[static_cast<size_t>(op)]) {
    for (const auto* list : {&op_.inputs, &op_.outputs}) {
      for (const Value value : *list) {
        if (value) place(lowered.program[value].storage);
      }
    }
    kernel_ = &lowered.ops[static_cast<size_t>(op)].kernel;
    scratch_at_ = bytes_;
    bytes_ += align_up(kernel_->scratch_bytes, lowered_.alignment);
  }

  int64_t bytes() const { return bytes_; }

  // `sweep` leaves nothing of the op in the caches. What an op before it makes is there again, the rest is not.
  Measured measure(std::byte* memory, const Timer& timer, const std::function<void()>& sweep) const {
    device::Device& device = device::find_device(lowered_.device);
    const auto stream = device.stream({.threads = lowered_.threads});
    stream->zero(memory, bytes_);
    stream->synchronize();
    for (const auto& [owner, offset] : offsets_) {
      fill_with_numbers(device, *stream, memory + offset,
                        lowered_.program.values[static_cast<size_t>(owner)].type.spec());
    }
    if (op_.def->name == "gather_backward" && !lowered_.program[op_.inputs[1]].view) {
      fill_with_indices(device, address(memory, op_.inputs[1]), lowered_.program[op_.inputs[1]].type.spec(),
                        program::attribute(op_, "size").dim().constant());
    }
    const device::ThreadScope scope(lowered_.threads);
    const kernels::Task task = kernel_->bind(memory_at(device, memory));
    if (device.seconds_of(*stream, [] {})) return least_on_device(device, *stream, task);
    const auto run = [&] {
      task(*stream);
      stream->synchronize();
    };
    const auto before = [&] {
      if (!sweep) return;
      sweep();
      for (const Value value : op_.inputs) {
        if (value && is_made_by_an_op(value)) read(memory, lowered_.program[value].storage);
      }
    };
    return median_of_runs(run, before, lowered_.threads, timer);
  }

  kernels::Task bind(std::byte* memory) const {
    return kernel_->bind(memory_at(device::find_device(lowered_.device), memory));
  }

 private:
  bool is_made_by_an_op(Value value) const {
    const Value owner = lowered_.program[value].storage;
    const auto makes = [&](const Op& op) {
      return std::any_of(op.outputs.begin(), op.outputs.end(),
                         [&](Value made) { return made && lowered_.program[made].storage == owner; });
    };
    const auto is_kept = [&](const std::vector<Value>& list) {
      return std::any_of(list.begin(), list.end(), [&](Value kept) { return lowered_.program[kept].storage == owner; });
    };
    return !is_kept(lowered_.program.parameters) && !is_kept(lowered_.program.state) &&
           std::any_of(lowered_.program.ops.begin(), lowered_.program.ops.end(), makes);
  }

  // The end of it, which was written last.
  void read(const std::byte* memory, Value owner) const {
    constexpr int64_t kLine = 64;
    const int64_t bytes = lowered_.program[owner].type.spec().bytes();
    const std::byte* data = memory + offsets_.at(owner.index);
    std::byte seen{};
    static const int64_t fresh = std::clamp(largest_cache_bytes() / 4, kLeastFresh, kMostFresh);
    for (int64_t at = std::max<int64_t>(0, bytes - fresh); at < bytes; at += kLine) seen |= data[at];
    volatile std::byte used = seen;
    static_cast<void>(used);
  }

  void place(Value owner) {
    if (offsets_.contains(owner.index)) return;
    offsets_[owner.index] = bytes_;
    bytes_ += align_up(lowered_.program[owner].type.spec().bytes(), lowered_.alignment);
  }

  std::byte* address(std::byte* memory, Value value) const {
    const program::ValueInfo& info = lowered_.program[value];
    const int64_t inside = program::layout(info).offset.constant() * element_bytes(info.type.dtype);
    return memory + offsets_.at(info.storage.index) + inside;
  }

  kernels::Memory memory_at(const device::Device& device, std::byte* memory) const {
    const auto at = [&](Value value) { return value ? device.kernel_address(address(memory, value)) : nullptr; };
    kernels::Memory bound;
    for (const Value value : op_.inputs) bound.inputs.push_back(at(value));
    for (const Value value : op_.outputs) bound.outputs.push_back(at(value));
    bound.scratch = device.kernel_address(memory + scratch_at_);
    return bound;
  }

  const Lowered& lowered_;
  const Op& op_;
  const kernels::Kernel* kernel_ = nullptr;
  std::map<int32_t, int64_t> offsets_;  // by owner
  int64_t bytes_ = 0;
  int64_t scratch_at_ = 0;
};

// Of the ops of a name.
int32_t middle_op(const Lowered& lowered, std::string_view name) {
  std::vector<int32_t> places;
  for (size_t i = 0; i < lowered.program.ops.size(); ++i) {
    if (lowered.program.ops[i].def->name == name) places.push_back(static_cast<int32_t>(i));
  }
  return places.at(places.size() / 2);
}

// What a step goes over before it comes to the same weights again: about half of its storages are in memory at once.
int64_t touched_bytes(const program::Program& program) {
  int64_t bytes = 0;
  for (size_t i = 0; i < program.values.size(); ++i) {
    const program::ValueInfo& info = program.values[i];
    if (info.storage.index == static_cast<int32_t>(i)) bytes += info.type.spec().bytes() / 2;
  }
  return bytes;
}

// That weights are no longer in the caches when they are read again: more than the caches hold, where steps have as
// much; as far as there is room for it. 0: none.
int64_t swept_bytes(std::span<const Lowered* const> programs, int64_t room_bytes) {
  int64_t touched = 0;
  for (const Lowered* lowered : programs) touched = std::max(touched, touched_bytes(lowered->program));
  const int64_t wanted = std::clamp(std::min(2 * largest_cache_bytes(), touched), kLeastSwept, kMostSwept);
  return room_bytes < kLeastSwept ? 0 : std::min(wanted, room_bytes);
}

// A kernel that goes over so many bytes, on the threads that ops are measured on.
class Sweep {
 public:
  Sweep(const std::string& device, int threads, int64_t bytes, const Budget& budget)
      : lowered_(kernels::prepare(
            program::parse_program(fmt::format("input %x: f32[{}]\n%y = relu(%x)\noutput %y\n", bytes / 8)),
            {.device = device, .threads = threads})),
        bench_(lowered_, middle_op(lowered_, "relu")),
        stream_(device::find_device(device).stream({.threads = threads})),
        pages_(device::find_device(device).pages(bench_.bytes())),
        arena_(*pages_, bench_.bytes(), budget),
        task_(bench_.bind(arena_.data())) {}

  void operator()() const {
    task_(*stream_);
    stream_->synchronize();
  }

 private:
  Lowered lowered_;
  Bench bench_;
  std::unique_ptr<device::Stream> stream_;
  std::unique_ptr<PageSource> pages_;
  Arena arena_;
  kernels::Task task_;
};

// Over `bytes`, or over less where all the runs of `kinds` of op would then take too much of the time.
void start_sweep(std::optional<Sweep>& sweep, const Lowered& lowered, int64_t bytes, size_t kinds,
                 const MeasureOptions& options) {
  sweep.emplace(lowered.device, lowered.threads, bytes, options.budget);
  (*sweep)();
  const auto start = Clock::now();
  (*sweep)();
  const double all_s = seconds_since(start) * static_cast<double>(kinds * (kRuns + 1));
  const double share = kSweepShare * options.time_limit_s / all_s;
  if (share >= 1 || bytes <= kLeastSwept) return;
  const auto fewer = static_cast<int64_t>(share * static_cast<double>(bytes));
  sweep.emplace(lowered.device, lowered.threads, std::max(kLeastSwept, fewer), options.budget);
}

// A spill file of its own while kernels are measured: what they write there is not the state that is trained.
class SpillAside {
 public:
  SpillAside() {
    if (file_) kernels::use_spill_file(std::make_shared<SpillFile>(file_->folder()));
  }
  ~SpillAside() { kernels::use_spill_file(file_); }
  SpillAside(const SpillAside&) = delete;
  SpillAside& operator=(const SpillAside&) = delete;

 private:
  std::shared_ptr<SpillFile> file_ = kernels::spill_file();
};

// A kind of op to be measured.
struct Wanted {
  const Lowered* lowered = nullptr;
  int32_t op = 0;
  std::string key = {};
  double seconds = 0;  // in a step, as they are estimated
  bool again = false;  // it is known, by few runs
};

// What is not known, or was not measured for long or quietly; then what was measured in few runs. Each by its weight.
std::vector<Wanted> find_wanted(std::span<const Lowered* const> programs, const MeasureOptions& options,
                                const CostTable& table) {
  std::map<std::string, Wanted> wanted;
  const int64_t day = plan::today();
  for (const Lowered* lowered : programs) {
    const std::vector<double> seconds = plan::costs_of(*lowered, table).seconds;
    for (size_t i = 0; i < lowered->ops.size(); ++i) {
      const auto op = static_cast<int32_t>(i);
      if (!lowered->ops[i].kernel.bind || program::needs_ranks(*lowered->program.ops[i].def)) continue;
      const std::string key = plan::cost_key(*lowered, op);
      const auto known = table.find(key);
      const bool again = known != table.end() && known->second.quiet && !plan::is_stale(known->second, day);
      if (again && known->second.runs >= kEnoughRuns) continue;
      if (align_up(Bench(*lowered, op).bytes(), kMostPageBytes) > options.budget.bytes) continue;
      Wanted& one = wanted.try_emplace(key, Wanted{lowered, op, key, 0, again}).first->second;
      one.seconds += seconds[i];
    }
  }
  std::vector<Wanted> list;
  for (auto& [key, one] : wanted) list.push_back(std::move(one));
  std::stable_sort(list.begin(), list.end(), [](const Wanted& a, const Wanted& b) {
    return a.again != b.again ? b.again : a.seconds > b.seconds;
  });
  return list;
}

// Whether the table now says something else.
bool enter(const Measured& measured, const std::string& key, const kernels::LoweredOp& op, CostTable& table) {
  if (!measured.is_known()) return false;
  const MeasuredOp entry{measured.seconds, op.flops, op.bytes, plan::today(), 1, measured.quiet};
  const auto [found, is_new] = table.try_emplace(key, entry);
  if (is_new) return true;
  const double before = found->second.seconds;
  const int runs = found->second.runs + (measured.quiet ? 1 : 0);
  found->second = plan::better_of(found->second, entry);
  found->second.runs = std::max(found->second.runs, runs);
  return std::abs(found->second.seconds - before) > kSame * before;
}

// A program of which one op is measured, where it stands in the middle of others of its name.
struct Calibration {
  const char* kernel;
  const char* op;
  std::string text;
};

// A convolution stands between others, so that it has the layout that it has in models. A copy goes over more than the
// caches hold, where the budget has room for that.
std::vector<Calibration> calibration_programs(int64_t budget_bytes) {
  const int64_t elements = std::clamp<int64_t>(budget_bytes / 32, kMiB / 4, 4 * kMiB);
  return {{"matmul", "matmul", "input %a: f32[384,384]\ninput %b: f32[384,384]\n%y = matmul(%a, %b)\noutput %y\n"},
          {"conv", "conv",
           "input %x: f32[2,64,28,28]\ninput %w: f32[64,64,3,3]\n%a = conv(%x, %w) {padding=[1]}\n"
           "%b = conv(%a, %w) {padding=[1]}\n%y = conv(%b, %w) {padding=[1]}\noutput %y\n"},
          {"copy", "relu", fmt::format("input %x: f32[{0}]\n%y = relu(%x)\noutput %y\n", elements)}};
}

}  // namespace

bool calibrate(const std::string& device, int threads, const MeasureOptions& options, CostTable& table) {
  if (!device::find_device(device).traits().runs) return false;
  if (table.contains(plan::calibration_key(device, threads, "copy"))) return false;
  bool entered = false;
  for (const auto& [kernel, name, text] : calibration_programs(options.budget.bytes)) {
    const Lowered lowered = kernels::prepare(program::parse_program(text), {.device = device, .threads = threads});
    const int32_t op = middle_op(lowered, name);
    const Bench bench(lowered, op);
    if (align_up(bench.bytes(), kMostPageBytes) > options.budget.bytes) return entered;
    const auto pages = device::find_device(device).pages(bench.bytes());
    Arena arena(*pages, bench.bytes(), options.budget);
    entered |= enter(bench.measure(arena.data(), options.timer, nullptr),
                     plan::calibration_key(device, threads, kernel), lowered.ops[static_cast<size_t>(op)], table);
  }
  return entered;
}

bool measure_costs(std::span<const Lowered* const> programs, const MeasureOptions& options, CostTable& table) {
  const auto start = Clock::now();
  bool changed = false;
  for (const Lowered* lowered : programs) {
    if (seconds_since(start) < options.time_limit_s)
      changed |= calibrate(lowered->device, lowered->threads, options, table);
  }
  if (programs.empty() || !device::find_device(programs.front()->device).traits().runs) return changed;
  const std::vector<Wanted> wanted = find_wanted(programs, options, table);
  if (wanted.empty()) return changed;
  int64_t most = 0;
  for (const Wanted& one : wanted) most = std::max(most, Bench(*one.lowered, one.op).bytes());
  const auto pages = device::find_device(wanted.front().lowered->device).pages(most);
  Arena arena(*pages, most, options.budget);
  const kernels::Lowered& first = *wanted.front().lowered;
  std::optional<Sweep> sweep;
  const int64_t room = options.budget.bytes - align_up(most, kMostPageBytes);
  const int64_t swept = swept_bytes(programs, room / 2);
  if (swept > 0 && device::find_device(first.device).traits().is_host) {
    start_sweep(sweep, first, swept, wanted.size(), options);
  }
  const auto before = sweep ? std::function<void()>([&] { (*sweep)(); }) : nullptr;
  const SpillAside aside;
  std::optional<Clock::time_point> since_again;
  for (size_t i = 0; i < wanted.size() && seconds_since(start) < options.time_limit_s; ++i) {
    const Wanted& one = wanted[i];
    if (one.again && !since_again) since_again = Clock::now();
    if (one.again && seconds_since(*since_again) > kAgainS) break;
    const kernels::LoweredOp& op = one.lowered->ops[static_cast<size_t>(one.op)];
    try {
      changed |= enter(Bench(*one.lowered, one.op).measure(arena.data(), options.timer, before), one.key, op, table);
    } catch (const SystemError&) {  // the disk has no room to try an op that spills: it is estimated
    }
    if (options.on_progress) options.on_progress(i + 1, wanted.size());
  }
  return changed;
}

bool measure_costs(const Lowered& lowered, const MeasureOptions& options, CostTable& table) {
  const Lowered* const one[] = {&lowered};
  return measure_costs(one, options, table);
}

}  // namespace plimsoll::train
