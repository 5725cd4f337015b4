// Whether a log says anywhere how large a device's memory is, or how full: that decides whether a refusal without
// figures of its own is a full device or nobody knows what.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace plimsoll::explain {

// A line with a size of a device's memory: its total, what is free or used, what was put or asked for there.
bool tells_device_bytes(std::string_view line);

// The size of a device as a line tells it: "VRAM: 24124 MiB", "Device Global Memory: 7940 MiB", "8011MiB / 24564MiB".
// The largest where it tells of several.
std::optional<int64_t> device_total(std::string_view line);

// Whether a text has any size.
bool has_bytes(std::string_view text);

// What the lines of `text`, as they came, tell of a device: whether any has a size of it, and the largest total.
struct DeviceFigures {
  bool told = false;
  std::optional<int64_t> total_bytes;
};
DeviceFigures device_figures_in(std::string_view text);

}  // namespace plimsoll::explain
