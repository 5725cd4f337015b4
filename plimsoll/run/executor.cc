#include "plimsoll/run/executor.h"

#include <fmt/format.h>

#include <chrono>

#include "plimsoll/base/error.h"
#include "plimsoll/device/threads.h"
#include "plimsoll/program/ops/collective.h"

namespace plimsoll::run {

using program::Value;

Executor::Executor(kernels::Lowered lowered, plan::MemoryPlan plan, Arena& arena,
                   std::shared_ptr<device::Stream> stream)
    : lowered_(std::move(lowered)),
      plan_(std::move(plan)),
      arena_(arena),
      device_(device::find_device(lowered_.device)),
      stream_(stream ? std::move(stream) : device_.stream({.threads = lowered_.threads})) {
  if (arena.bytes() < arena_bytes()) {
    throw ArgumentError(fmt::format("the plan takes {} bytes, the arena has {}", arena_bytes(), arena.bytes()));
  }
  const device::ThreadScope scope(lowered_.threads);
  for (size_t op = 0; op < lowered_.ops.size(); ++op) {
    kernels::Kernel& kernel = lowered_.ops[op].kernel;
    if (!kernel.bind) continue;
    tasks_.push_back(kernel.bind(memory_of(static_cast<int32_t>(op))));
    task_ops_.push_back(op);
    if (program::is_collective(*program().ops[op].def)) collective_seconds_[op] = 0;
    kernel.bind = nullptr;  // what it holds is not needed again
  }
}

// Work that is enqueued refers to tasks and arena.
Executor::~Executor() {
  try {
    synchronize();
  } catch (const std::exception&) {  // nobody is left to be told
  }
}

void Executor::enqueue_step() {
  try {
    run_tasks();
  } catch (...) {
    drain();
    throw;
  }
}

void Executor::synchronize() {
  try {
    stream_->synchronize();
  } catch (const device::KernelFault& fault) {
    drain();
    report(fault.found());
  } catch (...) {
    drain();
    throw;
  }
}

void Executor::step() {
  enqueue_step();
  synchronize();
}

// Copies and collectives may be under way in the arena.
void Executor::drain() {
  if (spill_file_) spill_file_->drain();
  if (ranks_) ranks_->drain();
}

void Executor::report(const device::FaultRecord& found) const {
  const program::Op& op = program().ops.at(static_cast<size_t>(found.op - 1));
  const std::string& result = op.outputs.empty() || !op.outputs[0] ? op.def->name : program()[op.outputs[0]].name;
  throw ArgumentError(fmt::format(
      "{} %{}: index {} at place {} of {} is out of range, expected {} to {}", op.def->name, result, found.value,
      found.place, program()[op.inputs.at(static_cast<size_t>(found.operand))].name, found.least, found.most));
}

// The first step touches memory and code for the first time, on some ranks longer than on others.
void Executor::run_task(size_t i) {
  const auto collective = collective_seconds_.find(task_ops_[i]);
  if (collective == collective_seconds_.end()) return tasks_[i](*stream_);
  const auto start = std::chrono::steady_clock::now();
  tasks_[i](*stream_);
  const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - start;
  if (steps_ > 1) collective->second += taken.count();
}

void Executor::run_tasks() {
  ++steps_;
  if (op_seconds_.empty()) {
    const auto all = [this] {
      for (size_t i = 0; i < tasks_.size(); ++i) run_task(i);
    };
    // Libraries load code when they are first called, which cannot be kept.
    if (steps_ == 2) kept_ = stream_->keep(all);
    return kept_ ? kept_->enqueue() : all();
  }
  auto start = std::chrono::steady_clock::now();
  for (size_t i = 0; i < tasks_.size(); ++i) {
    run_task(i);
    stream_->synchronize();
    const auto end = std::chrono::steady_clock::now();
    op_seconds_[task_ops_[i]] = std::chrono::duration<double>(end - start).count();
    start = end;
  }
}

kernels::Memory Executor::memory_of(int32_t op) const {
  const program::Op& described = program().ops[static_cast<size_t>(op)];
  kernels::Memory memory;
  for (const Value value : described.inputs) memory.inputs.push_back(device_.kernel_address(at(value)));
  for (const Value value : described.outputs) {
    memory.outputs.push_back(value ? device_.kernel_address(at(value)) : nullptr);
  }
  memory.scratch = device_.kernel_address(arena_.data() + plan_.scratch_offset(op));
  memory.fault = stream_->fault();
  memory.op = op;
  return memory;
}

std::byte* Executor::at(Value value) const { return arena_.data() + plan_.offset_of(program(), value); }

int64_t Executor::elements(Value value) const { return program()[value].type.shape.elements().constant(); }

void Executor::read_bytes(const std::byte* from, std::span<std::byte> to) {
  synchronize();
  if (!to.empty()) device_.read(to, from);
}

void Executor::write_bytes(std::byte* to, std::span<const std::byte> from) {
  synchronize();
  if (!from.empty()) device_.write(to, from);
}

void Executor::read_part(Value value, int64_t offset, std::span<std::byte> into) {
  const auto size = static_cast<size_t>(element_bytes(program()[value].type.dtype));
  read_bytes(checked_at(value, size) + offset, into);
}

void Executor::write_part(Value value, int64_t offset, std::span<const std::byte> from) {
  const auto size = static_cast<size_t>(element_bytes(program()[value].type.dtype));
  write_bytes(checked_at(value, size) + offset, from);
}

void Executor::require_elements(Value value, size_t count) const {
  if (elements(value) == static_cast<int64_t>(count)) return;
  const program::ValueInfo& info = program()[value];
  throw ArgumentError(fmt::format("%{} is {}: {} numbers do not fill it", info.name, info.type.text(), count));
}

std::byte* Executor::checked_at(Value value, size_t element_size) const {
  const program::ValueInfo& info = program()[value];
  if (element_bytes(info.type.dtype) != static_cast<int64_t>(element_size)) {
    throw ArgumentError(
        fmt::format("%{} is {}: its elements are not of {} bytes", info.name, info.type.text(), element_size));
  }
  if (info.view && info.view->strides != program::row_major(info.type.shape)) {
    throw ArgumentError(fmt::format("%{} is a view that is not contiguous", info.name));
  }
  if (elements(value) > 0 && plan_.storage_of(info.storage).bytes == 0) {
    throw ArgumentError(fmt::format("%{} lies in the spill file", info.name));
  }
  return at(value);
}

}  // namespace plimsoll::run
