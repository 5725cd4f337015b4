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

// The largest of all lines of `text`, as they came.
std::optional<int64_t> largest_device_total(std::string_view text);

// Whether a text has any size.
bool has_bytes(std::string_view text);

// Whether any line of `text`, as it came, tells of a device.
bool has_device_bytes(std::string_view text);

}  // namespace plimsoll::explain
