#include "plimsoll/pack/nogoods.h"

namespace plimsoll::pack {
namespace {

uint64_t mix(uint64_t x) {
  x = (x ^ (x >> 32)) * 0xD6E8FEB86659FD93u;
  return x ^ (x >> 29);
}

}  // namespace

uint64_t Nogoods::key_of(const State& state, Span part) {
  uint64_t key = 1;
  const uint64_t* unplaced = state.unplaced().words();
  for_each_common(unplaced, unplaced, state.words(), [&](int32_t i) {
    const Span hull = state.instance().hull(i);
    if (hull.end <= part.first || part.end <= hull.first) return;
    const auto resting = static_cast<uint64_t>(state.resting(i));
    const auto lowest = static_cast<uint64_t>(state.lowest(i));
    key = mix(key + mix(static_cast<uint64_t>(i + 1) * 0x9E3779B97F4A7C15u ^ resting) + lowest * 0xC2B2AE3D27D4EB4Fu);
  });
  return key;
}

}  // namespace plimsoll::pack
