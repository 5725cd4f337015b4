#include "plimsoll/pack/holes.h"

#include "plimsoll/base/bytes.h"

namespace plimsoll::pack {

void Holes::add(const Area& area) {
  if (area.first < area.end && area.low < area.high) by_bytes_.emplace(area.high - area.low, area);
}

std::optional<int64_t> Holes::take(const Buffer& buffer, int64_t ceiling) {
  constexpr int kTries = 64;
  auto found = by_bytes_.lower_bound(buffer.bytes);
  for (int tries = 0; tries < kTries && found != by_bytes_.end(); ++tries, ++found) {
    const Area hole = found->second;
    const int64_t low = align_up(hole.low, buffer.alignment);
    const int64_t high = low + buffer.bytes;
    const bool alive = hole.first <= buffer.first && buffer.end <= hole.end;
    if (!alive || high > hole.high || high > ceiling) continue;
    by_bytes_.erase(found);
    add({hole.first, hole.end, high, hole.high});
    add({hole.first, hole.end, hole.low, low});
    add({hole.first, buffer.first, low, high});
    add({buffer.end, hole.end, low, high});
    return low;
  }
  return std::nullopt;
}

}  // namespace plimsoll::pack
