#include "plimsoll/memory/placement_history.h"

#include <gtest/gtest.h>

#include <vector>

namespace plimsoll {
namespace {

// A request that was placed at `offset`, wherever the memory would have had it.
PlacementHistory::Ticket place(PlacementHistory& memory, int64_t size, int64_t live, int64_t offset) {
  const PlacementHistory::Lookup look_up = memory.look_up(size, live);
  return memory.remember(look_up, size, HeapPlace{.offset = offset}, false);
}

TEST(PlacementHistory, KnowsNothingAtFirst) {
  PlacementHistory memory;
  auto look_up = memory.look_up(4, 100);
  EXPECT_FALSE(look_up.next());
  EXPECT_EQ(look_up.alive_age(), 0);
}

TEST(PlacementHistory, OffersThePlaceOfTheSameRequest) {
  PlacementHistory memory;
  for (const int64_t size : {8, 4}) memory.freed(place(memory, size, 100, size * 10));
  memory.freed(place(memory, 8, 100, 80));  // so that the request before is the same
  auto look_up = memory.look_up(4, 100);
  const auto place = look_up.next();
  ASSERT_TRUE(place);
  EXPECT_EQ(place->offset, 40);
  EXPECT_FALSE(look_up.next());
}

TEST(PlacementHistory, KeysRequestsBySizeLiveBytesAndTheRequestBefore) {
  PlacementHistory memory;
  memory.freed(place(memory, 4, 100, 40));
  EXPECT_FALSE(memory.look_up(4, 101).next());
  EXPECT_FALSE(memory.look_up(5, 100).next());
  EXPECT_FALSE(memory.look_up(4, 100).next()) << "the request before was another";
}

TEST(PlacementHistory, OffersNoPlaceWhoseBlockIsAliveAndTellsItsAge) {
  PlacementHistory memory;
  place(memory, 4, 0, 40);
  const auto alive = place(memory, 4, 0, 50);  // after a request of size 4: the moment that repeats from now on
  place(memory, 4, 9, 60);
  auto look_up = memory.look_up(4, 0);
  EXPECT_FALSE(look_up.next());
  EXPECT_EQ(look_up.alive_age(), 2);
  memory.freed(alive);
  EXPECT_EQ(memory.look_up(4, 0).next()->offset, 50);
}

TEST(PlacementHistory, OffersAllPlacesOfARequestInTurn) {
  PlacementHistory memory;
  place(memory, 4, 0, 0);
  std::vector<PlacementHistory::Ticket> tickets;
  for (const int64_t offset : {10, 20, 30}) {
    auto look_up = memory.look_up(4, 0);
    EXPECT_FALSE(look_up.next());
    tickets.push_back(memory.remember(look_up, 4, HeapPlace{.offset = offset}, false));
  }
  for (const auto& ticket : tickets) memory.freed(ticket);
  auto look_up = memory.look_up(4, 0);
  for (const int64_t offset : {10, 20, 30}) EXPECT_EQ(look_up.next()->offset, offset);
  EXPECT_FALSE(look_up.next());
}

TEST(PlacementHistory, StopsLookingAfterAFewPlaces) {
  PlacementHistory memory;
  place(memory, 4, 0, 0);
  int offered = 0;
  for (int64_t round = 0; round < 1000; ++round) {  // no spot is ever the right one
    auto look_up = memory.look_up(4, 0);
    for (offered = 0; look_up.next(); ++offered) continue;
    memory.freed(memory.remember(look_up, 4, HeapPlace{.offset = round}, false));
  }
  EXPECT_EQ(offered, 32);
}

TEST(PlacementHistory, ForgetsOldRequestsWithoutHarm) {
  PlacementHistory memory;
  const auto first = place(memory, 4, 0, 0);
  for (int64_t live = 1; live < 100'000; ++live) memory.freed(place(memory, 4, live, live));
  memory.freed(first);
  auto look_up = memory.look_up(4, 99'999);
  EXPECT_EQ(look_up.next()->offset, 99'999);
}

}  // namespace
}  // namespace plimsoll
