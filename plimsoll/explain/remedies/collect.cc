// What to record where the log does not tell how much was asked for, or who holds the device. These come first, and
// beside what may help anyway.
#include "plimsoll/explain/remedies.h"

namespace plimsoll::explain {
namespace {

constexpr Mask kUnknown = mask(Cause::unknown);
constexpr Mask kTorch = mask(Framework::torch);

constexpr RemedyRow kRows[] = {
    {.id = "torch.launch_blocking",
     .frameworks = kTorch,
     .causes = kUnknown,
     .backends = mask(Backend::cuda),
     .action = "run once more so that the traceback names the call, with the card's processes in view",
     .setting = "CUDA_LAUNCH_BLOCKING=1 python ...; nvidia-smi",
     .cost = "slower while it is set",
     .collects = true},
    {.id = "torch.serialize_kernels",
     .frameworks = kTorch,
     .causes = kUnknown,
     .backends = mask(Backend::rocm),
     .action = "run once more so that the traceback names the call, with the card's processes in view",
     .setting = "AMD_SERIALIZE_KERNEL=3 python ...; rocm-smi --showpids",
     .cost = "slower while it is set",
     .collects = true},
    {.id = "collect.cuda",
     .frameworks = ~kTorch,
     .causes = kUnknown,
     .backends = mask(Backend::cuda),
     .action = "to know more, record what is used, and by whom, until it fails; keep the lines around the message",
     .setting = "nvidia-smi --query-compute-apps=pid,used_memory --format=csv -l 1",
     .collects = true},
    {.id = "collect.rocm",
     .frameworks = ~kTorch,
     .causes = kUnknown,
     .backends = mask(Backend::rocm),
     .action = "to know more, record what is used, and by whom, until it fails; keep the lines around the message",
     .setting = "rocm-smi --showmeminfo vram --showpids",
     .collects = true},
    {.id = "collect.any",
     .causes = kUnknown,
     .backends = ~mask(Backend::cuda, Backend::rocm),
     .action = "to know more, record what of the device is used, and by whom, until it fails; keep the lines around",
     .collects = true},
};

}  // namespace

std::span<const RemedyRow> collect_remedies() { return kRows; }

}  // namespace plimsoll::explain
