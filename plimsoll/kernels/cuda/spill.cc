// Results that wait outside the card, in pinned memory of the host: copies on the op's own stream, so an op that waits
// for one has nothing to do.
#include "plimsoll/device/cuda/runtime.h"
#include "plimsoll/kernels/cuda/support/steps.h"

namespace plimsoll::kernels {
namespace {

using namespace cuda;  // NOLINT: the whole file is of it
using plimsoll::cuda::Runtime;

// Where a copy lies: `at` in the room that all spills of a program share.
KernelDef copy_kernel(bool to_host) {
  const auto prepare = [to_host](const KernelCall& call) {
    const int64_t at = call.op.integer("at");
    const int64_t workspace = call.op.integer("region");
    const int64_t bytes = call.in(0).bytes();
    Steps steps(call);
    const At device = to_host ? steps.contiguous(0) : out();
    steps.add([=](const Memory& memory) -> Task {
      if (CompileOnly::architecture() != nullptr) return [](device::Stream&) {};
      std::byte* host = Runtime::current().host_room(workspace) + at;
      std::byte* there = address(device, memory);
      return [=](device::Stream& stream) { stream.copy(to_host ? host : there, to_host ? there : host, bytes); };
    });
    return steps.kernel();
  };
  return {prepare, any_layout};
}

Kernel nothing(const KernelCall& /*use*/) {
  return {0, [](const Memory&) -> Task { return [](device::Stream&) {}; }};
}

}  // namespace

void register_spill_cuda(KernelTable& table) {
  table.add("spill", copy_kernel(true));
  table.add("fetch", copy_kernel(false));
  table.add("spill_finish", {nothing, any_layout});
  table.add("fetch_finish", {nothing, any_layout});
}

}  // namespace plimsoll::kernels
