// How the CPU adapts uses of ops to its kernels: contiguous copies of operands that a kernel cannot read where they
// are, f32 copies of what it does not compute in f16 or bf16. All in scratch that is planned.
#include "plimsoll/base/bytes.h"
#include "plimsoll/device/threads.h"
#include "plimsoll/kernels/copy.h"
#include "plimsoll/kernels/cpu/support/upcast_wrapper.h"
#include "plimsoll/kernels/device.h"
#include "plimsoll/kernels/tiling.h"

namespace plimsoll::kernels {
namespace {

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
    if (input.is_blocked() || def.accepts(input)) continue;
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

// Libraries size their scratch by the number of threads.
Kernel lower(const KernelDef& def, const KernelCall& call) {
  const device::ThreadScope scope(call.threads);
  return prepare_in_any_precision(def, call);
}

}  // namespace

void register_lower_cpu(KernelTable& table) { table.set_lowering(lower); }

}  // namespace plimsoll::kernels
