#include "plimsoll/kernels/cpu/support/lent_heap.h"

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <cstring>
#include <thread>
#include <vector>

namespace plimsoll::kernels {
namespace {

void* take_with_loan(size_t bytes) {
  const HeapLoan loan;
  return take_lent(bytes);
}

// The first piece of this thread's block, where all have been given back.
void* start_of_block() {
  void* piece = take_with_loan(1);
  give_back_lent(piece);
  return piece;
}

TEST(LentHeap, GivesNothingWithoutALoan) {
  EXPECT_EQ(take_lent(1), nullptr);
  EXPECT_NE(start_of_block(), nullptr);
  EXPECT_EQ(take_lent(1), nullptr);
}

TEST(LentHeap, GivesNothingToThreadsThatWorkForNoLoan) {
  void* other = nullptr;
  {
    const HeapLoan loan;
    std::thread([&other] { other = take_lent(1); }).join();
  }
  EXPECT_EQ(other, nullptr);
}

TEST(LentHeap, GivesPiecesApartAndAligned) {
  std::vector<std::byte*> pieces;
  pieces.reserve(3);
  for (const size_t bytes : {1, 17, 100}) pieces.push_back(static_cast<std::byte*>(take_with_loan(bytes)));
  EXPECT_GE(pieces[1] - pieces[0], 1);
  EXPECT_GE(pieces[2] - pieces[1], 17);
  for (std::byte* piece : pieces) {
    EXPECT_EQ(reinterpret_cast<uintptr_t>(piece) % __STDCPP_DEFAULT_NEW_ALIGNMENT__, 0U);
    EXPECT_TRUE(give_back_lent(piece));
  }
}

TEST(LentHeap, StartsOverWhenAllPiecesAreBack) {
  void* first = take_with_loan(40);
  void* second = take_with_loan(40);
  EXPECT_NE(first, second);
  give_back_lent(first);
  EXPECT_NE(start_of_block(), first) << "the second is still held";
  give_back_lent(second);
  EXPECT_EQ(start_of_block(), first);
}

TEST(LentHeap, GivesNothingThatDoesNotFit) {
  EXPECT_EQ(take_with_loan(SIZE_MAX), nullptr);
  std::vector<void*> pieces;
  pieces.reserve(1 << 10);
  while (void* piece = take_with_loan(1000)) pieces.push_back(piece);
  EXPECT_GE(pieces.size(), 4U);
  for (void* piece : pieces) EXPECT_TRUE(give_back_lent(piece));
  EXPECT_NE(start_of_block(), nullptr);
}

TEST(LentHeap, KnowsItsPieces) {
  int local = 0;
  EXPECT_FALSE(give_back_lent(&local));
  EXPECT_FALSE(give_back_lent(nullptr));
}

TEST(LentHeap, TakesPiecesBackOnAnotherThread) {
  void* const start = start_of_block();
  constexpr size_t kPieces = 20'000;
  constexpr size_t kBytes = 48;
  std::vector<std::atomic<void*>> handed(kPieces);
  int damaged = 0;
  std::thread other([&] {
    std::array<unsigned char, kBytes> expected;
    for (size_t i = 0; i < kPieces; ++i) {
      while (handed[i] == nullptr) std::this_thread::yield();
      expected.fill(static_cast<unsigned char>(i));
      damaged += std::memcmp(handed[i], expected.data(), kBytes) == 0 ? 0 : 1;
      give_back_lent(handed[i]);
    }
  });
  for (std::atomic<void*>& place : handed) {
    void* piece = nullptr;
    while ((piece = take_with_loan(kBytes)) == nullptr) std::this_thread::yield();
    place = std::memset(piece, static_cast<unsigned char>(&place - handed.data()), kBytes);
  }
  other.join();
  EXPECT_EQ(damaged, 0);
  EXPECT_EQ(start_of_block(), start);
}

}  // namespace
}  // namespace plimsoll::kernels
