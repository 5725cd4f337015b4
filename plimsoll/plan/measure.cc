#include "plimsoll/plan/measure.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstring>
#include <ctime>

#include "plimsoll/base/bytes.h"
#include "plimsoll/memory/arena.h"
#include "plimsoll/memory/file_pages.h"
#include "plimsoll/memory/spill_file.h"
#include "plimsoll/program/op.h"

namespace plimsoll::plan {
namespace {

using kernels::Lowered;
using program::Op;
using program::Value;

constexpr int64_t kMostPageBytes = 2 * kMiB;
constexpr size_t kRuns = 3;          // after one that warms up; the fastest counts: others may use the machine
constexpr double kLongEnough = 0.1;  // seconds of runs after which one more tells nothing new

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

double processor_seconds() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) / 1e9;
}

// On one thread processor time is as good, and does not count what else runs on the machine.
double seconds_of(const kernels::Task& task, int threads) {
  const auto start = Clock::now();
  const double processor_start = processor_seconds();
  task();
  return threads == 1 ? processor_seconds() - processor_start : seconds_since(start);
}

// Numbers around zero, as in a run: on zeros alone every branch goes the same way.
void fill(std::span<float> data) {
  constexpr size_t kPattern = 4093;
  uint32_t state = 1;
  for (float& x : data.first(std::min(kPattern, data.size()))) {
    state = state * 1664525 + 1013904223;
    x = static_cast<float>(static_cast<int32_t>(state)) * 0x1p-31F;
  }
  for (size_t i = kPattern; i < data.size(); ++i) data[i] = data[i - kPattern];
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
    bytes_ += align_up(kernel_->scratch_bytes, kernels::kAlignment);
  }

  int64_t bytes() const { return bytes_; }

  double seconds(std::byte* memory) const {
    std::memset(memory, 0, static_cast<size_t>(bytes_));
    for (const auto& [owner, offset] : offsets_) {
      const program::Type& type = lowered_.program.values[static_cast<size_t>(owner)].type;
      if (type.dtype != DType::f32) continue;  // indices: 0 is one of every range
      fill({reinterpret_cast<float*>(memory + offset), static_cast<size_t>(type.spec().bytes()) / sizeof(float)});
    }
    const kernels::Task task = kernel_->bind(memory_at(memory));
    double sum = seconds_of(task, lowered_.threads);
    double fastest = HUGE_VAL;
    for (size_t i = 0; i == 0 || (i < kRuns && sum < kLongEnough); ++i) {
      const double run = seconds_of(task, lowered_.threads);
      fastest = std::min(fastest, run);
      sum += run;
    }
    return fastest;
  }

 private:
  void place(Value owner) {
    if (offsets_.contains(owner.index)) return;
    offsets_[owner.index] = bytes_;
    bytes_ += align_up(lowered_.program[owner].type.spec().bytes(), kernels::kAlignment);
  }

  std::byte* address(std::byte* memory, Value value) const {
    const program::ValueInfo& info = lowered_.program[value];
    const int64_t inside = program::layout(info).offset.constant() * element_bytes(info.type.dtype);
    return memory + offsets_.at(info.storage.index) + inside;
  }

  kernels::Memory memory_at(std::byte* memory) const {
    kernels::Memory bound;
    for (const Value value : op_.inputs) bound.inputs.push_back(address(memory, value));
    for (const Value value : op_.outputs) bound.outputs.push_back(value ? address(memory, value) : nullptr);
    bound.scratch = memory + scratch_at_;
    return bound;
  }

  const Lowered& lowered_;
  const Op& op_;
  const kernels::Kernel* kernel_ = nullptr;
  std::map<int32_t, int64_t> offsets_;  // by owner
  int64_t bytes_ = 0;
  int64_t scratch_at_ = 0;
};

// A kind of op that is not in the table yet.
struct Wanted {
  const Lowered* lowered = nullptr;
  int32_t op = 0;
  std::string key = {};
  double seconds = 0;  // in a step, as they are estimated
};

std::vector<Wanted> find_wanted(std::span<const Lowered* const> programs, const MeasureOptions& options,
                                const CostTable& table) {
  std::map<std::string, Wanted> wanted;
  for (const Lowered* lowered : programs) {
    const std::vector<double> seconds = costs_of(*lowered, table).seconds;
    for (size_t i = 0; i < lowered->ops.size(); ++i) {
      const auto op = static_cast<int32_t>(i);
      if (!lowered->ops[i].kernel.bind) continue;
      const std::string key = cost_key(*lowered, op);
      if (table.contains(key)) continue;
      if (align_up(Bench(*lowered, op).bytes(), kMostPageBytes) > options.budget.bytes) continue;
      Wanted& one = wanted.try_emplace(key, Wanted{lowered, op, key}).first->second;
      one.seconds += seconds[i];
    }
  }
  std::vector<Wanted> list;
  for (auto& [key, one] : wanted) list.push_back(std::move(one));
  std::stable_sort(list.begin(), list.end(), [](const Wanted& a, const Wanted& b) { return a.seconds > b.seconds; });
  return list;
}

constexpr int64_t kCopyBytes = 4 * kMiB;
constexpr int64_t kCopies = 16;  // to the file, and back

struct CopySeconds {
  double disk = 0;
  double processor = 0;
};

double seconds_of_all_threads() {
  timespec now{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) / 1e9;
}

// Of one MiB, one way.
CopySeconds seconds_to_copy(const std::string& folder) {
  SpillFile file(folder);
  std::vector<std::byte> memory(kCopyBytes, std::byte{1});
  const int64_t room = file.room(kCopies * kCopyBytes);
  const auto start = Clock::now();
  const double processor = seconds_of_all_threads();
  SpillFile::Job last = 0;
  for (int64_t i = 0; i < kCopies; ++i) last = file.write(memory.data(), kCopyBytes, room + i * kCopyBytes);
  for (int64_t i = 0; i < kCopies; ++i) last = file.read(memory.data(), kCopyBytes, room + i * kCopyBytes);
  file.wait(last);
  constexpr double kCopied = static_cast<double>(2 * kCopies * kCopyBytes) / static_cast<double>(kMiB);
  return {seconds_since(start) / kCopied, (seconds_of_all_threads() - processor) / kCopied};
}

}  // namespace

SpillOptions measure_spill(const std::string& folder, CostTable& table) {
  const std::string disk = fmt::format("spill of 1 MiB in {}", folder);
  const std::string processor = disk + ", of the processor";
  if (!table.contains(disk) || !table.contains(processor)) {
    const CopySeconds measured = seconds_to_copy(folder);
    table[disk] = {measured.disk, 0, kMiB};
    table[processor] = {measured.processor, 0, kMiB};
  }
  constexpr double kLeast = 1e-9;
  return {.bytes_per_s = static_cast<double>(kMiB) / std::max(table[disk].seconds, kLeast),
          .processor_s_per_byte = table[processor].seconds / static_cast<double>(kMiB)};
}

void measure_costs(std::span<const Lowered* const> programs, const MeasureOptions& options, CostTable& table) {
  const auto start = Clock::now();
  const std::vector<Wanted> wanted = find_wanted(programs, options, table);
  if (wanted.empty()) return;
  int64_t most = 0;
  for (const Wanted& one : wanted) most = std::max(most, Bench(*one.lowered, one.op).bytes());
  FilePages pages = FilePages::host(host_page_bytes(most));
  Arena arena(pages, most, options.budget);
  for (size_t i = 0; i < wanted.size() && seconds_since(start) < options.time_limit_s; ++i) {
    const Wanted& one = wanted[i];
    const kernels::LoweredOp& op = one.lowered->ops[static_cast<size_t>(one.op)];
    table[one.key] = {Bench(*one.lowered, one.op).seconds(arena.data()), op.flops, op.bytes};
    if (options.told) options.told(i + 1, wanted.size());
  }
}

void measure_costs(const Lowered& lowered, const MeasureOptions& options, CostTable& table) {
  const Lowered* const one[] = {&lowered};
  measure_costs(one, options, table);
}

}  // namespace plimsoll::plan
