// Checks a packing by a sweep over time. Shares no code with the solver, so that a mistake there cannot hide here.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "plimsoll/pack/pack.h"

namespace plimsoll::pack {

// What is wrong with a packing: the buffer at fault, and for an overlap the other one.
struct Fault {
  enum class Kind : uint8_t { count, negative, beyond_capacity, misaligned, moved, overlap };
  Kind kind = Kind::count;
  int64_t buffer = 0;  // index
  int64_t other = -1;  // of the buffer that it overlaps
  int64_t time = 0;    // at which both are alive

  std::string text() const;  // "buffers 3 and 7 overlap at time 12"
  bool operator==(const Fault&) const = default;
};

// The first fault found, or nothing when every offset is right: one for each buffer, none negative, nothing past
// `capacity`, aligned, fixed offsets kept, and no two live buffers sharing a byte. O(n log n).
std::optional<Fault> find_fault(std::span<const Buffer> buffers, std::span<const int64_t> offsets,
                                int64_t capacity = INT64_MAX);

}  // namespace plimsoll::pack
