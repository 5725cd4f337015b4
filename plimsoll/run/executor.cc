#include "plimsoll/run/executor.h"

#include <fmt/format.h>

#include <chrono>

#include "plimsoll/base/error.h"

namespace plimsoll::run {

using program::Value;

Executor::Executor(kernels::Lowered lowered, plan::MemoryPlan plan, Arena& arena)
    : lowered_(std::move(lowered)), plan_(std::move(plan)), arena_(arena) {
  if (arena.bytes() < arena_bytes()) {
    throw ArgumentError(fmt::format("the plan takes {} bytes, the arena has {}", arena_bytes(), arena.bytes()));
  }
  for (size_t op = 0; op < lowered_.ops.size(); ++op) {
    kernels::Kernel& kernel = lowered_.ops[op].kernel;
    if (!kernel.bind) continue;
    tasks_.push_back(kernel.bind(memory_of(static_cast<int32_t>(op))));
    task_ops_.push_back(op);
    kernel.bind = nullptr;  // what it holds is not needed again
  }
}

void Executor::step() {
  try {
    run_tasks();
  } catch (...) {
    if (spill_file_) spill_file_->drain();  // copies may be under way in the arena
    throw;
  }
}

void Executor::run_tasks() {
  if (op_seconds_.empty()) {
    for (const kernels::Task& task : tasks_) task();
    return;
  }
  auto start = std::chrono::steady_clock::now();
  for (size_t i = 0; i < tasks_.size(); ++i) {
    tasks_[i]();
    const auto end = std::chrono::steady_clock::now();
    op_seconds_[task_ops_[i]] = std::chrono::duration<double>(end - start).count();
    start = end;
  }
}

kernels::Memory Executor::memory_of(int32_t op) const {
  const program::Op& described = program().ops[static_cast<size_t>(op)];
  kernels::Memory memory;
  for (const Value value : described.inputs) memory.inputs.push_back(at(value));
  for (const Value value : described.outputs) memory.outputs.push_back(value ? at(value) : nullptr);
  memory.scratch = arena_.data() + plan_.scratch_offset(op);
  return memory;
}

std::byte* Executor::at(Value value) const { return arena_.data() + plan_.offset_of(program(), value); }

std::span<std::byte> Executor::bytes(Value value) {
  const auto size = static_cast<size_t>(element_bytes(program()[value].type.dtype));
  return {checked_data(value, size), static_cast<size_t>(elements(value)) * size};
}

int64_t Executor::elements(Value value) const { return program()[value].type.shape.elements().constant(); }

std::byte* Executor::checked_data(Value value, size_t element_size) const {
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
