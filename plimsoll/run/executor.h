// Runs a prepared program out of one arena on its device. Addresses are resolved and kernels bound when it is made; a
// step then enqueues the ops in order, and allocates and decides nothing. Same program, data, thread count and machine:
// same bits.
//
//   Lowered lowered = prepare(program, {.device = "cpu"});
//   MemoryPlan plan = plan_memory(lowered);
//   Arena arena(pages, plan.placement.arena_bytes, budget);
//   Executor executor(lowered, plan, arena);
//   executor.write<float>(parameter, numbers);
//   executor.step();
//   executor.read<float>(output);
//
// Not thread-safe. The arena, of pages of the program's device, must outlive it. All memory is as the arena's pages
// were: zero when they are new.
#pragma once

#include <map>
#include <span>
#include <string_view>
#include <vector>

#include "plimsoll/device/device.h"
#include "plimsoll/kernels/collective.h"
#include "plimsoll/kernels/prepare.h"
#include "plimsoll/kernels/spill.h"
#include "plimsoll/memory/arena.h"
#include "plimsoll/plan/memory_plan.h"

namespace plimsoll::run {

class Executor {
 public:
  // Work goes on `stream`, or on one of its own. ArgumentError when the arena is smaller than the plan.
  Executor(kernels::Lowered lowered, plan::MemoryPlan plan, Arena& arena,
           std::shared_ptr<device::Stream> stream = nullptr);
  ~Executor();
  Executor(const Executor&) = delete;
  Executor& operator=(const Executor&) = delete;

  // Enqueues a step. What its kernels find wrong comes out of synchronize, at the latest.
  void enqueue_step();
  // Until all that was enqueued is done. ArgumentError from an op whose operands make no sense (an index out of range),
  // SystemError from a disk that is full; the step is then half done, and nothing of it goes on.
  void synchronize();
  // Both.
  void step();

  // From now on steps measure how long each op takes.
  void time_ops() { op_seconds_.assign(lowered_.program.ops.size(), 0.0); }
  // Of each op, in the last step; 0 for those that do nothing. Empty when that is not measured.
  const std::vector<double>& op_seconds() const { return op_seconds_; }

  // How long the collectives have taken, by op, in all steps but the first: in them a rank waits for the others.
  const std::map<size_t, double>& collective_seconds() const { return collective_seconds_; }

  const kernels::Lowered& lowered() const { return lowered_; }
  const program::Program& program() const { return lowered_.program; }
  const plan::MemoryPlan& memory() const { return plan_; }
  int64_t arena_bytes() const { return plan_.placement.arena_bytes; }
  size_t tasks() const { return tasks_.size(); }
  int threads() const { return lowered_.threads; }
  device::Device& device() const { return device_; }

  // The elements of an input, a parameter, state, or after a step an output: what is there when no op runs. Each waits
  // for what was enqueued. T must be of the size of the value's elements, and the value contiguous; ArgumentError
  // otherwise, and for another number of elements than it has.
  template <class T>
  std::vector<T> read(program::Value value) {
    std::vector<T> data(static_cast<size_t>(elements(value)));
    read_bytes(checked_at(value, sizeof(T)), std::as_writable_bytes(std::span(data)));
    return data;
  }
  template <class T>
  void write(program::Value value, std::span<const T> data) {
    require_elements(value, data.size());
    write_bytes(checked_at(value, sizeof(T)), std::as_bytes(data));
  }
  // Of a value with one element.
  template <class T>
  T read_one(program::Value value) {
    T one{};
    require_elements(value, 1);
    read_bytes(checked_at(value, sizeof(T)), std::as_writable_bytes(std::span(&one, 1)));
    return one;
  }
  template <class T>
  void write_one(program::Value value, T one) {
    write(value, std::span<const T>(&one, 1));
  }

  // Some bytes of a value, from `offset` on, likewise; they must lie within it.
  void read_part(program::Value value, int64_t offset, std::span<std::byte> into);
  void write_part(program::Value value, int64_t offset, std::span<const std::byte> from);

  // Calls f(span of bytes of the host), which writes all of them; they become the value. Where the device's memory is
  // the host's, that is the value itself, and nothing is taken for it.
  template <class F>
  void fill_bytes(program::Value value, const F& f) {
    const auto size = static_cast<size_t>(element_bytes(program()[value].type.dtype));
    const size_t bytes = static_cast<size_t>(elements(value)) * size;
    std::byte* at = checked_at(value, size);
    synchronize();
    if (device_.traits().is_host) return f(std::span(at, bytes));
    std::vector<std::byte> staged(bytes);
    f(std::span(staged));
    device_.write(at, staged);
  }
  // The same with elements.
  template <class T, class F>
  void fill(program::Value value, const F& f) {
    checked_at(value, sizeof(T));
    fill_bytes(value, [&](std::span<std::byte> bytes) {
      f(std::span<T>(reinterpret_cast<T*>(bytes.data()), bytes.size() / sizeof(T)));
    });
  }
  // Calls f(span of bytes of the host), which reads them: the value itself or a copy, likewise.
  template <class F>
  void view_bytes(program::Value value, const F& f) {
    const auto size = static_cast<size_t>(element_bytes(program()[value].type.dtype));
    const size_t bytes = static_cast<size_t>(elements(value)) * size;
    std::byte* at = checked_at(value, size);
    synchronize();
    if (device_.traits().is_host) return f(std::span<const std::byte>(at, bytes));
    std::vector<std::byte> copy(bytes);
    device_.read(copy, at);
    f(std::span<const std::byte>(copy));
  }

 private:
  std::byte* at(program::Value value) const;
  std::byte* checked_at(program::Value value, size_t element_size) const;
  void require_elements(program::Value value, size_t count) const;
  void read_bytes(const std::byte* from, std::span<std::byte> to);
  void write_bytes(std::byte* to, std::span<const std::byte> from);
  int64_t elements(program::Value value) const;
  void run_tasks();
  void run_task(size_t i);
  void drain();
  kernels::Memory memory_of(int32_t op) const;
  [[noreturn]] void report(const device::FaultRecord& found) const;

  kernels::Lowered lowered_;
  plan::MemoryPlan plan_;
  Arena& arena_;
  device::Device& device_;
  std::shared_ptr<device::Stream> stream_;
  std::shared_ptr<SpillFile> spill_file_ = kernels::spill_file();          // that the kernels were bound with
  std::shared_ptr<device::Communicator> ranks_ = kernels::communicator();  // likewise
  std::vector<kernels::Task> tasks_;                                       // of the ops that do something, in order
  std::vector<size_t> task_ops_;                                           // the op of each task
  std::vector<double> op_seconds_;                                         // empty: not measured
  std::map<size_t, double> collective_seconds_;                            // empty: there are no collectives
  int64_t steps_ = 0;                                                      // that were enqueued
  std::unique_ptr<device::Kept> kept_;                                     // a step as the device repeats it, if it can
};

}  // namespace plimsoll::run
