#include "plimsoll/kernels/prepare.h"

#include <fmt/format.h>

#include "plimsoll/base/error.h"
#include "plimsoll/device/device.h"
#include "plimsoll/kernels/blocking.h"
#include "plimsoll/program/passes/fuse_norm_relus.h"
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

// What blocks of channels are for numbers of a dtype: AMX tiles want channels last.
Layout block_layout(const Lowered& lowered, DType dtype) {
  if (kernels_of(lowered.device).has_channels_last()) return Layout::channels_last;
  return lowered.amx_tiles && dtype == DType::bf16 ? Layout::channels_last : Layout::blocked16;
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
      const Layout layout = lowered.layouts[static_cast<size_t>(values[at].index)];
      tensor.layout = works_so ? block_layout(lowered, tensor.dtype) : layout;
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
  return table.lower(def, call);
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
  const KernelTable& table = kernels_of(lowered.device);
  return with_cost(table.lower(definition(table, call, lowered.device), call), program, op);
}

Kernel prepare_call(KernelCall call, const DeviceOptions& options) {
  const KernelTable& table = kernels_of(options.device);
  call.amx_tiles = options.amx_tiles.value_or(table.has_amx_tiles());
  return table.lower(definition(table, call, options.device), call);
}

Lowered prepare(Program program, const DeviceOptions& options) {
  program::verify_bound(program);
  const KernelTable& table = kernels_of(options.device);
  Lowered lowered{{}, {}, options.device, thread_count(options)};
  lowered.alignment = device::find_device(options.device).traits().alignment;
  lowered.amx_tiles = options.amx_tiles.value_or(table.has_amx_tiles());
  if (table.fuses_norms()) program = program::fuse_norm_relus(std::move(program));
  const bool blocks = table.prefers_blocks() || lowered.amx_tiles;
  Blocked blocked = blocks ? block_channels(std::move(program), table) : without_blocks(std::move(program));
  lowered.program = std::move(blocked.program);
  for (size_t i = 0; i < blocked.values.size(); ++i) {
    const DType dtype = lowered.program.values[i].type.dtype;
    lowered.layouts.push_back(blocked.values[i] ? block_layout(lowered, dtype) : Layout::strided);
  }
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
