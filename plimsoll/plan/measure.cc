#include "plimsoll/plan/measure.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
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
constexpr int kRuns = 3;  // after one that warms up; the median counts

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
    const kernels::Task task = kernel_->bind(memory_at(memory));
    task();
    std::vector<double> runs;
    for (int i = 0; i < kRuns; ++i) {
      const auto start = std::chrono::steady_clock::now();
      task();
      runs.push_back(std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
    }
    std::sort(runs.begin(), runs.end());
    return runs[kRuns / 2];
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

constexpr int64_t kCopyBytes = 4 * kMiB;
constexpr int64_t kCopies = 16;  // to the file, and back

struct CopySeconds {
  double disk = 0;
  double processor = 0;
};

double processor_seconds() {
  timespec now{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) / 1e9;
}

// Of one MiB, one way.
CopySeconds seconds_to_copy(const std::string& folder) {
  SpillFile file(folder);
  std::vector<std::byte> memory(kCopyBytes, std::byte{1});
  const int64_t room = file.room(kCopies * kCopyBytes);
  const auto start = std::chrono::steady_clock::now();
  const double processor = processor_seconds();
  SpillFile::Job last = 0;
  for (int64_t i = 0; i < kCopies; ++i) last = file.write(memory.data(), kCopyBytes, room + i * kCopyBytes);
  for (int64_t i = 0; i < kCopies; ++i) last = file.read(memory.data(), kCopyBytes, room + i * kCopyBytes);
  file.wait(last);
  const double took = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  constexpr auto kCopied = static_cast<double>(2 * kCopies * kCopyBytes / kMiB);
  return {took / kCopied, (processor_seconds() - processor) / kCopied};
}

}  // namespace

SpillOptions measure_spill(const std::string& folder, CostTable& table) {
  const std::string disk = fmt::format("spill of 1 MiB in {}", folder);
  const std::string processor = disk + ", of the processor";
  if (!table.contains(disk) || !table.contains(processor)) {
    const CopySeconds measured = seconds_to_copy(folder);
    table[disk] = measured.disk;
    table[processor] = measured.processor;
  }
  constexpr double kLeast = 1e-9;
  return {.bytes_per_s = static_cast<double>(kMiB) / std::max(table[disk], kLeast),
          .processor_s_per_byte = table[processor] / static_cast<double>(kMiB)};
}

void measure_costs(const Lowered& lowered, const Budget& budget, CostTable& table,
                   const std::function<void(size_t, size_t)>& told) {
  std::map<std::string, int32_t> wanted;
  int64_t most = 0;
  for (size_t op = 0; op < lowered.ops.size(); ++op) {
    if (!lowered.ops[op].kernel.bind) continue;
    const auto place = static_cast<int32_t>(op);
    std::string key = cost_key(lowered, place);
    const int64_t bytes = Bench(lowered, place).bytes();
    if (align_up(bytes, kMostPageBytes) > budget.bytes || table.contains(key)) continue;
    wanted.emplace(std::move(key), place);
    most = std::max(most, bytes);
  }
  if (wanted.empty()) return;
  FilePages pages = FilePages::host(host_page_bytes(most));
  Arena arena(pages, most, budget);
  size_t done = 0;
  for (const auto& [key, op] : wanted) {
    table[key] = Bench(lowered, op).seconds(arena.data());
    if (told) told(++done, wanted.size());
  }
}

}  // namespace plimsoll::plan
