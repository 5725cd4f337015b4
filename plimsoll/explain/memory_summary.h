// The table that torch.cuda.memory_summary prints.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace plimsoll::explain {

// Current and peak bytes. Sizes are as rounded as the table prints them.
struct MemorySummary {
  std::string device;
  int64_t line = 0;
  int64_t ooms = 0;
  int64_t retries = 0;  // of cudaMalloc after the cache was emptied
  std::optional<int64_t> allocated_bytes, allocated_peak_bytes;
  std::optional<int64_t> requested_bytes;
  std::optional<int64_t> reserved_bytes, reserved_peak_bytes;
  std::optional<int64_t> non_releasable_bytes;  // free, but in segments that something pins
};

std::optional<MemorySummary> start_memory_summary(std::string_view line);
// False when the line does not belong to the table.
bool add_to_memory_summary(std::string_view line, MemorySummary& summary);

}  // namespace plimsoll::explain
