// Remedies that do not depend on the framework, only on the backend.
#include "plimsoll/explain/remedies.h"

namespace plimsoll::explain {
namespace {

OptionalBytes others(const Situation& s) { return s.other_bytes; }

constexpr Mask kOthers = mask(Cause::other_process);
constexpr Mask kUnclear = mask(Cause::device_full, Cause::workspace, Cause::fragmentation);

constexpr RemedyRow kRows[] = {
    {.id = "common.check_shape",
     .causes = mask(Cause::garbage_size),
     .action = "print the shape where the tensor is made: a dimension has overflowed, is not initialised, or is an id"},
    {.id = "common.stop_others_cuda",
     .causes = kOthers,
     .backends = mask(Backend::cuda, Backend::unknown),
     .action = "stop {who} or use another device",
     .setting = "nvidia-smi; CUDA_VISIBLE_DEVICES=<free device>",
     .saves = others},
    {.id = "common.stop_others_rocm",
     .causes = kOthers,
     .backends = mask(Backend::rocm),
     .action = "stop {who} or use another device",
     .setting = "rocm-smi --showpids; HIP_VISIBLE_DEVICES=<free device>",
     .saves = others},
    {.id = "common.stop_others_xpu",
     .causes = kOthers,
     .backends = mask(Backend::xpu),
     .action = "stop {who} or use another device",
     .setting = "xpu-smi ps; ZE_AFFINITY_MASK=<free device>",
     .saves = others},
    {.id = "common.stop_others",
     .causes = kOthers,
     .backends = mask(Backend::mps, Backend::tpu, Backend::vulkan, Backend::cpu, Backend::npu),
     .action = "stop {who}",
     .saves = others},
    {.id = "common.split_request",
     .causes = mask(Cause::request_too_large),
     .action = "compute it in {parts} or more parts, or in a smaller dtype: it can never fit whole",
     .cost = "depends on the loop",
     .last_resort = true},
    {.id = "common.less_at_once",
     .causes = mask(Cause::device_full, Cause::activations, Cause::parameters_and_optimizer, Cause::fragmentation,
                    Cause::outside_framework, Cause::workspace, Cause::unknown, Cause::odd_step),
     .action = "use less at once: fewer or smaller inputs, a smaller model, or a larger device",
     .cost = "depends on the program",
     .last_resort = true},
    {.id = "common.collect_cuda",
     .causes = kUnclear,
     .backends = mask(Backend::cuda),
     .when = [](const Situation& s) { return s.is_fallback; },
     .action = "to know more, record what is used, and by whom, until it fails; keep the lines around the message",
     .setting = "nvidia-smi --query-compute-apps=pid,used_memory --format=csv -l 1",
     .last_resort = true},
    {.id = "common.collect",
     .causes = kUnclear,
     .backends = ~mask(Backend::cuda),
     .when = [](const Situation& s) { return s.is_fallback; },
     .action = "to know more, record what of the device is used, and by whom, until it fails; keep the lines around",
     .last_resort = true},
    {.id = "common.more_host",
     .causes = mask(Cause::host_memory, Cause::pinned_host_memory, Cause::shared_memory, Cause::cgroup_limit),
     .action = "use less of the host's memory at once, or give the program more of it",
     .cost = "depends on the program",
     .last_resort = true},
    {.id = "common.raise_limit",
     .causes = mask(Cause::cap_below_card),
     .action = "raise the limit that the message names",
     .last_resort = true},
    {.id = "common.stop_leak",
     .causes = mask(Cause::leak),
     .action = "do not keep what is made at {place} ({per_step} a step)",
     .saves = [](const Situation& s) { return s.leaked_bytes; },
     .last_resort = true},
};

}  // namespace

std::span<const RemedyRow> common_remedies() { return kRows; }

}  // namespace plimsoll::explain
