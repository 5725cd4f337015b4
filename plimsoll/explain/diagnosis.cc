#include "plimsoll/explain/diagnosis.h"

#include <array>
#include <utility>

namespace plimsoll::explain {
namespace {

struct CauseText {
  std::string_view name;
  std::string_view description;
};

constexpr std::array<CauseText, kCauses> kTexts = {{
    {"healthy", "Nothing ran out: memory returns to the same level every step."},
    {"request_too_large", "One request is larger than the device or the cap, so nothing that is freed would help."},
    {"leak", "Memory grows by about the same amount every step and is never given back."},
    {"activations", "What the forward pass keeps for the backward pass fills the memory."},
    {"parameters_and_optimizer", "Weights, gradients and optimizer state fill the memory before any activation does."},
    {"fragmentation", "Enough is free, but in pieces between live blocks, and none is large enough."},
    {"other_process", "Other processes on the device hold what is missing."},
    {"outside_framework", "This process holds memory that the framework's allocator does not know of."},
    {"cap_below_card", "A limit set for the process is reached while the device still has room."},
    {"garbage_size", "The size asked for is no real need: an overflow or an uninitialised shape."},
    {"host_memory", "The host's memory ran out, not the device's."},
    {"pinned_host_memory", "Page-locked host memory could not be had; the driver calls it a CUDA error."},
    {"shared_memory", "The shared memory that loader workers pass batches through is full."},
    {"cgroup_limit", "The container's or service's memory limit was reached, and the kernel killed a process."},
    {"odd_step", "One step needed far more than the others: an odd shape or batch."},
    {"workspace", "A library's workspace or handle did not fit beside the tensors."},
    {"device_full", "What is alive plus the request exceeds the limit; the input does not say what is alive."},
    {"unknown", "Memory was refused, and the input does not say which or why."},
}};

}  // namespace

std::string_view name(Cause cause) { return kTexts[static_cast<size_t>(cause)].name; }
std::string_view description(Cause cause) { return kTexts[static_cast<size_t>(cause)].description; }

std::string_view name(Confidence confidence) {
  constexpr std::array<std::string_view, 3> kNames = {"low", "medium", "high"};
  return kNames[static_cast<size_t>(confidence)];
}

void settle(Diagnosis& diagnosis, Cause cause, Confidence confidence, std::string headline) {
  diagnosis.cause = cause;
  diagnosis.confidence = confidence;
  diagnosis.headline = std::move(headline);
}

}  // namespace plimsoll::explain
