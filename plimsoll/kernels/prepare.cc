#include "plimsoll/kernels/prepare.h"

#include <fmt/format.h>

#include "plimsoll/base/bytes.h"
#include "plimsoll/base/error.h"
#include "plimsoll/kernels/blocking.h"
#include "plimsoll/kernels/copy.h"
#include "plimsoll/kernels/cpu/support/upcast_wrapper.h"
#include "plimsoll/kernels/tiling.h"
#include "plimsoll/program/verify.h"

namespace plimsoll::kernels {
namespace {

using program::Op;
using program::Program;
using program::Value;

TensorDesc tensor_of(const program::ValueInfo& value) {
  TensorDesc tensor{value.type.dtype, value.type.shape.shape(), {}};
  const program::Layout lies = program::layout(value);
  for (int axis = 0; axis < tensor.shape.rank(); ++axis) {
    tensor.strides[static_cast<size_t>(axis)] = lies.strides[axis].constant();
  }
  return tensor;
}

bool overwrites(const Op& op, size_t k) {
  for (const program::Overwrite& overwrite : op.def->overwrites) {
    if (static_cast<size_t>(overwrite.output) == k) return true;
  }
  return false;
}

// A result that shares another's storage and does not replace what is there has nothing to be written.
bool is_written(const Program& program, const Op& op, size_t k) {
  const Value value = op.outputs[k];
  if (!value || program[value].type.shape.elements() == 0) return false;
  return program[value].storage == value || overwrites(op, k);
}

KernelCall call_of(const Program& program, const Op& op, const program::OpCall& op_call, int threads) {
  KernelCall call{op_call, {}, {}, {}, threads};
  for (const Value input : op.inputs) call.inputs.push_back(tensor_of(program[input]));
  for (size_t k = 0; k < op.outputs.size(); ++k) {
    call.outputs.push_back(op.outputs[k] ? tensor_of(program[op.outputs[k]]) : TensorDesc{});
    call.requested.push_back(is_written(program, op, k));
  }
  return call;
}

// Says of the operands and results that may be blocked whether they are.
void mark_blocked(KernelCall& call, const Lowered& lowered, size_t place, const Op& op, const Blocking& blocking) {
  const auto mark = [&](std::vector<TensorDesc>& tensors, const std::vector<Value>& values,
                        const std::vector<int>& listed) {
    for (const int i : listed) {
      const auto at = static_cast<size_t>(i);
      if (at >= tensors.size() || !values[at]) continue;
      TensorDesc& tensor = tensors[at];
      const bool works_so = lowered.blocked_ops[place] && tensor.shape.rank() > 1 && tensor.is_contiguous();
      tensor.blocked = works_so || lowered.blocked_values[static_cast<size_t>(values[at].index)];
      tensor.channels_last = tensor.blocked && tensor.dtype == DType::bf16 && lowered.amx_tiles;
    }
  };
  mark(call.inputs, op.inputs, blocking.inputs);
  mark(call.inputs, op.inputs, blocking.like_result);
  mark(call.outputs, op.outputs, blocking.outputs);
}

bool writes_nothing(const KernelCall& call) {
  for (const bool made : call.requested) {
    if (made) return false;
  }
  return true;
}

// An operand that is copied into scratch before the kernel runs, because the kernel does not accept its layout.
struct Copied {
  size_t operand;
  TensorDesc from;
  int64_t offset;  // in the scratch of the op
};

Task bind_with_copies(const Kernel& kernel, const std::vector<Copied>& copies, Memory memory) {
  std::vector<Task> tasks;
  for (const Copied& copied : copies) {
    std::byte* to = memory.scratch + copied.offset;
    std::byte*& operand = memory.inputs[copied.operand];
    tasks.push_back([from = operand, to, tensor = copied.from] { copy_to_contiguous(tensor, from, to); });
    operand = to;
  }
  return [tasks = std::move(tasks), last = kernel.bind(memory)] {
    for (const Task& task : tasks) task();
    last();
  };
}

// The kernel, with contiguous copies of operands that it does not accept behind its own scratch.
Kernel prepare_with_copies(const KernelDef& def, KernelCall call) {
  std::vector<Copied> copies;
  for (size_t i = 0; i < call.inputs.size(); ++i) {
    TensorDesc& input = call.inputs[i];
    if (input.blocked || def.accepts(input)) continue;
    copies.push_back({i, input, 0});
    input = contiguous(input.dtype, input.shape);
  }
  Kernel kernel = def.prepare(call);
  if (copies.empty()) return kernel;
  int64_t end = align_up(kernel.scratch_bytes, kAlignment);
  for (Copied& copied : copies) {
    copied.offset = end;
    end += align_up(copied.from.bytes(), kAlignment);
  }
  return {end, [kernel, copies](const Memory& memory) { return bind_with_copies(kernel, copies, memory); }};
}

// Likewise, in f32 what the kernel does not compute in f16 and bf16.
Kernel prepare_in_any_precision(const KernelDef& def, const KernelCall& call) {
  const bool as_it_is = !has_low_precision(call) || (def.native != nullptr && def.native(call));
  if (as_it_is) return prepare_with_copies(def, call);
  return upcast_wrapper(call, def.tiling ? def.tiling(call) : Tiling{},
                        [&def](KernelCall wide) { return prepare_with_copies(def, std::move(wide)); });
}

const KernelDef& definition(const KernelTable& table, const KernelCall& call, const std::string& device) {
  const std::string& op = call.op.def.name;
  if (const KernelDef* def = table.find(op)) return *def;
  call.unsupported(
      fmt::format("{} has no kernel for {}; write the model with other ops, or add one "
                  "(docs/kernels.md)",
                  device, op));
}

// A tenth of all that the ops make and read.
int64_t spare_bytes(const Program& program) {
  int64_t all = 0;
  for (size_t i = 0; i < program.values.size(); ++i) {
    const program::ValueInfo& value = program.values[i];
    if (value.storage == Value{static_cast<int32_t>(i)}) all += value.type.spec().bytes();
  }
  return all / 10;
}

// Op `place` of the program, or the same with fewer results.
Kernel prepare_kernel(const KernelTable& table, const Lowered& lowered, size_t place, const Op& op) {
  const program::OwnedOpCall op_call(lowered.program, op);
  KernelCall call = call_of(lowered.program, op, *op_call, lowered.threads);
  if (writes_nothing(call)) return {};
  const KernelDef& def = definition(table, call, lowered.device);
  call.spare_bytes = lowered.spare_bytes;
  call.least_scratch = lowered.least_scratch;
  call.amx_tiles = lowered.amx_tiles;
  mark_blocked(call, lowered, place, op, def.blocking);
  return prepare_in_any_precision(def, call);
}

LoweredOp with_cost(Kernel kernel, const Program& program, const Op& op) {
  return {std::move(kernel), program::flops(program, op).constant(), program::traffic_bytes(program, op).constant()};
}

}  // namespace

std::vector<int64_t> Lowered::scratch_bytes() const {
  std::vector<int64_t> bytes;
  for (const LoweredOp& op : ops) bytes.push_back(op.kernel.scratch_bytes);
  return bytes;
}

LoweredOp prepare_added(const Lowered& lowered, const Program& program, const Op& op) {
  const program::OwnedOpCall op_call(program, op);
  const KernelCall call = call_of(program, op, *op_call, lowered.threads);
  return with_cost(definition(kernels_of(lowered.device), call, lowered.device).prepare(call), program, op);
}

Kernel prepare_call(KernelCall call, const DeviceOptions& options) {
  use_threads(call.threads);
  const KernelTable& table = kernels_of(options.device);
  call.amx_tiles = options.amx_tiles.value_or(table.has_amx_tiles());
  return prepare_in_any_precision(definition(table, call, options.device), call);
}

Lowered prepare(Program program, const DeviceOptions& options) {
  program::verify_bound(program);
  const KernelTable& table = kernels_of(options.device);
  Lowered lowered{{}, {}, options.device, thread_count(options)};
  use_threads(lowered.threads);  // libraries size their scratch by it
  lowered.amx_tiles = options.amx_tiles.value_or(table.has_amx_tiles());
  const bool blocks = table.prefers_blocks() || lowered.amx_tiles;
  Blocked blocked = blocks ? block_channels(std::move(program), table) : without_blocks(std::move(program));
  lowered.program = std::move(blocked.program);
  lowered.blocked_values = std::move(blocked.values);
  lowered.blocked_ops = std::move(blocked.ops);
  lowered.spare_bytes = spare_bytes(lowered.program);
  lowered.least_scratch = options.least_scratch;
  for (size_t i = 0; i < lowered.program.ops.size(); ++i) {
    const Op& op = lowered.program.ops[i];
    lowered.ops.push_back(with_cost(prepare_kernel(table, lowered, i, op), lowered.program, op));
  }
  return lowered;
}

LoweredOp prepare_again(const Lowered& lowered, size_t op, const std::vector<bool>& made) {
  Op again = lowered.program.ops[op];
  for (size_t k = 0; k < made.size(); ++k) {
    if (!made[k]) again.outputs[k] = {};
  }
  const KernelTable& table = kernels_of(lowered.device);
  return with_cost(prepare_kernel(table, lowered, op, again), lowered.program, again);
}

}  // namespace plimsoll::kernels
