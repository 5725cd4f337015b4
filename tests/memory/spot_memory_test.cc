#include "plimsoll/memory/spot_memory.h"

#include <gtest/gtest.h>

#include <vector>

namespace plimsoll {
namespace {

// A request that was placed at `offset`, wherever the memory would have had it.
SpotMemory::Ticket place(SpotMemory& memory, int64_t size, int64_t live, int64_t offset) {
  const SpotMemory::Recall recall = memory.recall(size, live);
  return memory.remember(recall, size, Spot{.offset = offset}, false);
}

TEST(SpotMemory, KnowsNothingAtFirst) {
  SpotMemory memory;
  auto recall = memory.recall(4, 100);
  EXPECT_FALSE(recall.next());
  EXPECT_EQ(recall.alive_age(), 0);
}

TEST(SpotMemory, OffersTheSpotOfTheSameMoment) {
  SpotMemory memory;
  for (const int64_t size : {8, 4}) memory.freed(place(memory, size, 100, size * 10));
  memory.freed(place(memory, 8, 100, 80));  // so that the request before is the same
  auto recall = memory.recall(4, 100);
  const auto spot = recall.next();
  ASSERT_TRUE(spot);
  EXPECT_EQ(spot->offset, 40);
  EXPECT_FALSE(recall.next());
}

TEST(SpotMemory, TellsMomentsApartBySizeLiveBytesAndTheRequestBefore) {
  SpotMemory memory;
  memory.freed(place(memory, 4, 100, 40));
  EXPECT_FALSE(memory.recall(4, 101).next());
  EXPECT_FALSE(memory.recall(5, 100).next());
  EXPECT_FALSE(memory.recall(4, 100).next()) << "the request before was another";
}

TEST(SpotMemory, OffersNoSpotWhoseBlockIsAliveAndTellsItsAge) {
  SpotMemory memory;
  place(memory, 4, 0, 40);
  const auto alive = place(memory, 4, 0, 50);  // after a request of size 4: the moment that repeats from now on
  place(memory, 4, 9, 60);
  auto recall = memory.recall(4, 0);
  EXPECT_FALSE(recall.next());
  EXPECT_EQ(recall.alive_age(), 2);
  memory.freed(alive);
  EXPECT_EQ(memory.recall(4, 0).next()->offset, 50);
}

TEST(SpotMemory, OffersAllSpotsOfAMomentInTurn) {
  SpotMemory memory;
  place(memory, 4, 0, 0);
  std::vector<SpotMemory::Ticket> tickets;
  for (const int64_t offset : {10, 20, 30}) {
    auto recall = memory.recall(4, 0);
    EXPECT_FALSE(recall.next());
    tickets.push_back(memory.remember(recall, 4, Spot{.offset = offset}, false));
  }
  for (const auto& ticket : tickets) memory.freed(ticket);
  auto recall = memory.recall(4, 0);
  for (const int64_t offset : {10, 20, 30}) EXPECT_EQ(recall.next()->offset, offset);
  EXPECT_FALSE(recall.next());
}

TEST(SpotMemory, StopsLookingAfterAFewSpots) {
  SpotMemory memory;
  place(memory, 4, 0, 0);
  int offered = 0;
  for (int64_t round = 0; round < 1000; ++round) {  // no spot is ever the right one
    auto recall = memory.recall(4, 0);
    for (offered = 0; recall.next(); ++offered) continue;
    memory.freed(memory.remember(recall, 4, Spot{.offset = round}, false));
  }
  EXPECT_EQ(offered, 32);
}

TEST(SpotMemory, ForgetsOldMomentsWithoutHarm) {
  SpotMemory memory;
  const auto first = place(memory, 4, 0, 0);
  for (int64_t live = 1; live < 100'000; ++live) memory.freed(place(memory, 4, live, live));
  memory.freed(first);
  auto recall = memory.recall(4, 99'999);
  EXPECT_EQ(recall.next()->offset, 99'999);
}

}  // namespace
}  // namespace plimsoll
