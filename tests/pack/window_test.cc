#include "plimsoll/pack/window.h"

#include <gtest/gtest.h>

#include "plimsoll/pack/oracle.h"
#include "tests/pack/instances.h"

namespace plimsoll::pack {
namespace {

constexpr int64_t kCapacity = 1024;

struct Packed {
  Buffers buffers;
  std::vector<int64_t> offsets;
};

// Without a hole anywhere, so that a buffer taken out fits only where it was or where others make room.
Packed packed(uint64_t seed) {
  std::mt19937_64 random(seed);
  Packed full{planted_in_place(random, 300, 150, kCapacity), {}};
  for (Buffer& buffer : full.buffers) {
    full.offsets.push_back(*buffer.fixed_offset);
    buffer.fixed_offset.reset();
  }
  return full;
}

Placement repaired(const Buffers& buffers, const std::vector<int64_t>& hint) {
  const Inference inference;
  const Limits limits;
  return repair_windows(make_instance(buffers), hint, kCapacity, inference, limits);
}

// Moves a buffer into the middle of others; how many of ten such packings are repaired, all of them right.
int count_repaired(bool with_fixed) {
  int solved = 0;
  for (uint64_t seed = 1; seed <= 10; ++seed) {
    auto [buffers, offsets] = packed(seed);
    for (size_t i = 0; with_fixed && i < buffers.size(); i += 20) buffers[i].fixed_offset = offsets[i];
    std::vector<int64_t> hint = offsets;
    hint[1] = (hint[1] + kCapacity / 2) % (kCapacity - buffers[1].bytes);
    const Placement found = repaired(buffers, hint);
    if (found.offsets.empty()) continue;
    ++solved;
    EXPECT_EQ(find_fault(buffers, found.offsets, kCapacity), std::nullopt) << seed;
    size_t moved = 0;
    for (size_t i = 0; i < offsets.size(); ++i) moved += found.offsets[i] != offsets[i] ? 1 : 0;
    EXPECT_LT(moved, buffers.size() / 2) << seed;
  }
  return solved;
}

TEST(Window, PacksAnewOnlyWhatLivesNearACollision) { EXPECT_GE(count_repaired(false), 5); }
TEST(Window, NeverMovesAFixedBuffer) { EXPECT_GE(count_repaired(true), 5); }

TEST(Window, KeepsAPackingThatHasNoCollisions) {
  const auto [buffers, offsets] = packed(1);
  EXPECT_EQ(repaired(buffers, offsets).offsets, offsets);
}

}  // namespace
}  // namespace plimsoll::pack
