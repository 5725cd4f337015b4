#include <gtest/gtest.h>

#include "plimsoll/pack/oracle.h"
#include "tests/pack/instances.h"

namespace plimsoll::pack {
namespace {

Buffers within(const Buffers& buffers, int64_t first, int64_t end) {
  Buffers part;
  for (Buffer buffer : buffers) {
    buffer.first = std::max(buffer.first, first);
    buffer.end = std::min(buffer.end, end);
    if (buffer.first < buffer.end) part.push_back(buffer);
  }
  return part;
}

// Nothing here is larger than the live load, so that only search can tell; where it does, the moments that it names
// must be too much by themselves.
TEST(PackBound, NamesMomentsThatDoNotFitByThemselves) {
  constexpr int64_t kCapacity = 16;
  std::mt19937_64 random(21);
  int local = 0;
  for (int i = 0; i < 20; ++i) {
    const Buffers buffers = crowded(random, 64, kCapacity);
    const Result result = pack(buffers, {.capacity = kCapacity, .time_limit_s = 600, .node_limit = 30'000});
    if (result) {
      EXPECT_EQ(find_fault(buffers, result->offsets, kCapacity), std::nullopt) << i;
    }
    if (result.outcome != Result::Outcome::infeasible) continue;
    const Bound& bound = result->bound;
    ASSERT_EQ(bound.kind, Bound::Kind::search) << i;
    ASSERT_GT(bound.bytes, kCapacity) << i;
    Options alone{.capacity = kCapacity, .time_limit_s = 600, .node_limit = 1'000'000};
    alone.inference.local_proof = false;
    EXPECT_EQ(pack(within(buffers, bound.first, bound.end), alone).outcome, Result::Outcome::infeasible) << i;
    local += bound.end - bound.first <= 32 ? 1 : 0;
  }
  EXPECT_GE(local, 2);
}

}  // namespace
}  // namespace plimsoll::pack
