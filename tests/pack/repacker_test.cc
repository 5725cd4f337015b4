#include "plimsoll/pack/repacker.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "plimsoll/base/error.h"
#include "plimsoll/pack/oracle.h"
#include "tests/pack/instances.h"

namespace plimsoll::pack {
namespace {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr int kPrograms = 20;
#else
constexpr int kPrograms = 200;
#endif
constexpr int kChanges = 20;

// What a repacker should hold, kept apart from it.
struct Mirror {
  explicit Mirror(const Buffers& buffers) {
    for (const Buffer& buffer : buffers) by_id.emplace(static_cast<int32_t>(by_id.size()), buffer);
  }

  int32_t some_id(std::mt19937_64& random) const {
    return std::next(by_id.begin(), between(random, 0, std::ssize(by_id) - 1))->first;
  }

  void apply(const Change& change, const std::vector<int32_t>& added) {
    for (const int32_t id : change.removed) by_id.erase(id);
    for (const auto& [id, buffer] : change.replaced) by_id[id] = buffer;
    for (size_t i = 0; i < added.size(); ++i) by_id[added[i]] = change.added[i];
  }

  Buffers buffers() const {
    Buffers all;
    for (const auto& [id, buffer] : by_id) all.push_back(buffer);
    return all;
  }

  std::vector<int64_t> offsets(const Repacker& repacker) const {
    std::vector<int64_t> all;
    for (const auto& [id, buffer] : by_id) all.push_back(repacker.offset(id));
    return all;
  }

  std::map<int32_t, Buffer> by_id;
};

// Up to three each of removed, replaced and added.
Change random_change(std::mt19937_64& random, const Mirror& mirror, const Spice& spice) {
  Change change;
  Mirror rest = mirror;
  for (int64_t i = between(random, 0, 3); i > 0 && rest.by_id.size() > 4; --i) {
    change.removed.push_back(rest.some_id(random));
    rest.by_id.erase(change.removed.back());
  }
  for (const Buffer& buffer : random_buffers(random, between(random, 0, 3), spice)) {
    if (rest.by_id.empty()) break;
    change.replaced.push_back({rest.some_id(random), buffer});
    rest.by_id.erase(change.replaced.back().id);
  }
  change.added = random_buffers(random, between(random, 0, 3), spice);
  return change;
}

void expect_right(const Repacker& repacker, const Mirror& mirror) {
  const Buffers buffers = mirror.buffers();
  ASSERT_EQ(find_fault(buffers, mirror.offsets(repacker), repacker.peak_bytes()), std::nullopt);
  const int64_t load = pack(buffers, {.capacity = 0})->lower_bound_bytes;
  EXPECT_GE(repacker.bound().bytes, load);
  EXPECT_GE(repacker.peak_bytes(), repacker.bound().bytes);
  if (repacker.bound().kind == Bound::Kind::search) return;
  EXPECT_EQ(repacker.bound().bytes, load);
}

void expect_only_moved_elsewhere(const Repacked& result, const std::map<int32_t, int64_t>& before,
                                 const Repacker& repacker) {
  for (const auto& [id, offset] : before) {
    const bool listed = std::find(result.moved.begin(), result.moved.end(), id) != result.moved.end();
    const bool is_new = std::find(result.added.begin(), result.added.end(), id) != result.added.end();
    if (!repacker.has(id) || is_new) continue;
    EXPECT_EQ(repacker.offset(id) != offset, listed) << id;
  }
}

struct Outcomes {
  int packed = 0;
  int from_nothing = 0;
  int refused = 0;
};

Outcomes follow_random_programs(const Spice& spice, std::optional<int64_t> capacity) {
  Outcomes outcomes;
  for (uint64_t seed = 1; seed <= kPrograms; ++seed) {
    std::mt19937_64 random(seed);
    const Buffers buffers = random_buffers(random, 12, spice);
    const RepackOptions options{.packing = {.capacity = capacity, .node_limit = 200}, .tolerance = 0.2};
    const Result first = pack(buffers, options.packing);
    if (!first) continue;
    Repacker repacker(buffers, *first, options);
    Mirror mirror(buffers);
    for (int i = 0; i < kChanges; ++i) {
      const Change change = random_change(random, mirror, spice);
      std::map<int32_t, int64_t> before;
      for (const auto& [id, buffer] : mirror.by_id) before[id] = repacker.offset(id);
      const Repacked result = repacker.change(change);
      if (result) mirror.apply(change, result.added);
      expect_right(repacker, mirror);
      expect_only_moved_elsewhere(result, before, repacker);
      if (testing::Test::HasFailure()) return outcomes;
      (result ? outcomes.packed : outcomes.refused) += 1;
      outcomes.from_nothing += result.from_nothing ? 1 : 0;
    }
  }
  return outcomes;
}

TEST(Repacker, KeepsAPackingRightThroughThousandsOfChanges) {
  const Outcomes outcomes = follow_random_programs({}, std::nullopt);
  EXPECT_EQ(outcomes.refused, 0);
  EXPECT_GT(outcomes.packed - outcomes.from_nothing, outcomes.packed / 4);
  EXPECT_GT(outcomes.from_nothing, 0);
}

TEST(Repacker, KeepsAlignmentsGapsAndFixedOffsets) {
  const Outcomes outcomes = follow_random_programs({.alignments = true, .gaps = true, .fixed = true}, std::nullopt);
  EXPECT_GT(outcomes.packed, 0);
  EXPECT_GT(outcomes.refused, 0);  // fixed offsets that collide
}

TEST(Repacker, KeepsWithinACapacityOrChangesNothing) {
  const Outcomes outcomes = follow_random_programs({}, 60);
  EXPECT_GT(outcomes.packed, 0);
  EXPECT_GT(outcomes.refused, 0);
}

TEST(Repacker, LeavesAllOthersWhereTheyWereWhenAChangeIsSmall) {
  std::mt19937_64 random(1);
  const Buffers buffers = training_step(random, 500);
  Repacker repacker(buffers, *pack(buffers));
  for (int32_t id = 0; id < 100; ++id) {
    Buffer larger = buffers[id];
    larger.bytes += 64;
    const Repacked result = repacker.change({.replaced = {{id, larger}}});
    ASSERT_TRUE(result);
    EXPECT_FALSE(result.from_nothing);
    EXPECT_LE(result.moved.size(), 4u);
  }
}

TEST(Repacker, StaysWithinItsToleranceOrPacksFromNothing) {
  std::mt19937_64 random(2);
  const Buffers buffers = training_step(random, 200);
  Repacker repacker(buffers, *pack(buffers), {.tolerance = 0.02});
  Mirror mirror(buffers);
  for (int i = 0; i < 50; ++i) {
    const int32_t id = mirror.some_id(random);
    const Change change{.removed = {id}, .added = {mirror.by_id[mirror.some_id(random)]}};
    mirror.apply(change, repacker.change(change).added);
    expect_right(repacker, mirror);
    EXPECT_LE(static_cast<double>(repacker.peak_bytes()), 1.02 * static_cast<double>(repacker.bound().bytes));
  }
}

TEST(Repacker, GivesTheRoomOfARemovedBufferToAnother) {
  const Buffers buffers = {{.bytes = 8, .first = 0, .end = 4}, {.bytes = 8, .first = 0, .end = 4}};
  Repacker repacker(buffers, *pack(buffers));
  const int64_t room = repacker.offset(0);
  const Repacked result = repacker.change({.removed = {0}, .added = {{.bytes = 8, .first = 1, .end = 3}}});
  ASSERT_EQ(result.added.size(), 1u);
  EXPECT_EQ(repacker.offset(result.added.front()), room);
  EXPECT_EQ(repacker.peak_bytes(), 16);
  EXPECT_TRUE(result.moved.empty());
}

TEST(Repacker, SaysWhyAndKeepsEverythingWhenACapacityIsTooSmall) {
  const Buffers buffers = {{.bytes = 8, .first = 0, .end = 4}};
  Repacker repacker(buffers, *pack(buffers), {.packing = {.capacity = 10}});
  const Repacked result = repacker.change({.added = {{.bytes = 4, .first = 0, .end = 1}}});
  EXPECT_EQ(result.outcome, Result::Outcome::infeasible);
  EXPECT_NE(result.reason.find("too small"), std::string::npos) << result.reason;
  EXPECT_TRUE(repacker.has(0));
  EXPECT_FALSE(repacker.has(1));
  EXPECT_EQ(repacker.bound().bytes, 8);
}

TEST(Repacker, CanBeEmptiedAndFilled) {
  Repacker repacker({{.bytes = 8, .first = 0, .end = 4}}, {.offsets = {0}});
  EXPECT_TRUE(repacker.change({.removed = {0}}));
  EXPECT_EQ(repacker.peak_bytes(), 0);
  const Repacked result = repacker.change({.added = {{.bytes = 3, .first = INT64_MIN, .end = INT64_MAX}}});
  EXPECT_TRUE(result);
  EXPECT_EQ(repacker.peak_bytes(), 3);
}

std::string message_of(Repacker& repacker, const Change& change) {
  try {
    repacker.change(change);
  } catch (const ArgumentError& error) {
    return error.what();
  }
  return {};
}

TEST(Repacker, RejectsWhatMakesNoSense) {
  const Buffer good{.bytes = 8, .first = 0, .end = 4};
  Repacker repacker({good, good}, {.offsets = {0, 8}});
  const std::pair<Change, const char*> cases[] = {
      {{.removed = {2}}, "no buffer has the id 2"},
      {{.removed = {-1}}, "no buffer has the id -1"},
      {{.removed = {1, 1}}, "the id 1 is named twice"},
      {{.removed = {1}, .replaced = {{1, good}}}, "the id 1 is named twice"},
      {{.replaced = {{0, {.bytes = 0, .first = 0, .end = 1}}}}, "the size is 0"},
      {{.added = {{.bytes = 1, .first = 3, .end = 3}}}, "the end is 3"},
      {{.added = {{.bytes = int64_t{1} << 62, .first = 0, .end = 1}}}, "add up too high"},
  };
  for (const auto& [change, expected] : cases) {
    const std::string message = message_of(repacker, change);
    EXPECT_NE(message.find(expected), std::string::npos) << message;
  }
  EXPECT_EQ(repacker.bound().bytes, 16);
  EXPECT_THROW(Repacker({good, good}, {.offsets = {0, 4}}), ArgumentError);
  EXPECT_THROW(Repacker({good}, {.offsets = {0}}, {.tolerance = -1}), ArgumentError);
  EXPECT_THROW(Repacker({good}, {.offsets = {0}}, {.packing = {.capacity = -1}}), ArgumentError);
}

}  // namespace
}  // namespace plimsoll::pack
