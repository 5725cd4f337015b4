// Why memory ran out, as one word, and how sure that is.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace plimsoll::explain {

enum class Cause : uint8_t {
  healthy,
  request_too_large,
  leak,
  activations,
  parameters_and_optimizer,
  fragmentation,
  other_process,
  outside_framework,
  cap_below_card,
  garbage_size,
  host_memory,
  pinned_host_memory,
  shared_memory,
  cgroup_limit,
  odd_step,
  workspace,
  device_full,
  unknown,
};
inline constexpr size_t kCauses = 18;

std::string_view name(Cause cause);         // as in --json: "pinned_host_memory"
std::string_view description(Cause cause);  // one sentence for the manual

enum class Confidence : uint8_t { low, medium, high };
std::string_view name(Confidence confidence);

}  // namespace plimsoll::explain
