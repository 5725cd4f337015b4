// How the CPU adapts uses of ops to its kernels: contiguous copies of operands that a kernel cannot read where they
// are, f32 copies of what it does not compute in f16 or bf16. All in scratch that is planned.
#include "plimsoll/base/bytes.h"
#include "plimsoll/device/threads.h"
#include "plimsoll/kernels/copy.h"
#include "plimsoll/kernels/cpu/support/staged.h"
#include "plimsoll/kernels/cut.h"
#include "plimsoll/kernels/device.h"

namespace plimsoll::kernels {
namespace {

// An operand that is copied into scratch before the kernel runs, because the kernel does not accept how it lies.
struct Copied {
  size_t operand;
  Tensor from;
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
Kernel prepare_with_copies(const KernelDef& def, Use use) {
  std::vector<Copied> copies;
  for (size_t i = 0; i < use.inputs.size(); ++i) {
    Tensor& input = use.inputs[i];
    if (input.is_blocked() || def.accepts(input)) continue;
    copies.push_back({i, input, 0});
    input = contiguous(input.dtype, input.shape);
  }
  Kernel kernel = def.prepare(use);
  if (copies.empty()) return kernel;
  int64_t end = align_up(kernel.scratch_bytes, kAlignment);
  for (Copied& copied : copies) {
    copied.offset = end;
    end += align_up(copied.from.bytes(), kAlignment);
  }
  return {end, [kernel, copies](const Memory& memory) { return bind_with_copies(kernel, copies, memory); }};
}

// Likewise, in f32 what the kernel does not compute in f16 and bf16.
Kernel prepare_in_any_precision(const KernelDef& def, const Use& use) {
  const bool as_it_is = !has_halves(use) || (def.native != nullptr && def.native(use));
  if (as_it_is) return prepare_with_copies(def, use);
  return staged(use, def.cut ? def.cut(use) : Cut{},
                [&def](Use wide) { return prepare_with_copies(def, std::move(wide)); });
}

// Libraries size their scratch by the number of threads.
Kernel lower(const KernelDef& def, const Use& use) {
  const device::ThreadScope scope(use.threads);
  return prepare_in_any_precision(def, use);
}

}  // namespace

void register_lower_cpu(KernelTable& table) { table.set_lowering(lower); }

}  // namespace plimsoll::kernels
