// Collectives that are started: what they give, in which order, and what becomes of them when a rank fails.
#include "plimsoll/device/queued_ranks.h"

#include <gtest/gtest.h>

#include <chrono>
#include <cstring>
#include <thread>
#include <vector>

#include "plimsoll/base/error.h"
#include "plimsoll/device/thread_ranks.h"

namespace plimsoll::device {
namespace {

using Ranks = std::shared_ptr<Communicator>;

template <class T>
std::byte* bytes_of(std::vector<T>& data) {
  return reinterpret_cast<std::byte*>(data.data());
}

std::vector<float> numbers_of(int rank, int64_t elements) {
  std::vector<float> numbers(static_cast<size_t>(elements));
  for (size_t i = 0; i < numbers.size(); ++i) numbers[i] = static_cast<float>(rank * 1000) + static_cast<float>(i);
  return numbers;
}

TEST(QueuedRanks, GiveWhatWaitingOnesDo) {
  for (const int ranks : {1, 2, 3, 4}) {
    for (const int64_t elements : {0, 1, 7, 257}) {
      ThreadRanks(ranks).run([&](const Ranks& group) {
        std::vector<float> sums = numbers_of(group->rank(), elements);
        std::vector<float> started = sums;
        std::vector<float> all = sums;
        std::vector<float> own(static_cast<size_t>(shard_elements(elements, ranks)));
        std::vector<float> gathered(sums.size());
        group->start_all_reduce(DType::f32, bytes_of(started), elements);
        group->start_reduce_scatter(DType::f32, bytes_of(all), elements, bytes_of(own));
        group->finish(bytes_of(own));
        const Shard shard = shard_of(elements, ranks, group->rank());
        std::copy_n(own.begin(), shard.size(), gathered.begin() + shard.first);
        group->start_all_gather(DType::f32, bytes_of(gathered), elements);
        group->finish(bytes_of(gathered));
        group->all_reduce(DType::f32, bytes_of(sums), elements);
        EXPECT_EQ(started, sums);
        EXPECT_EQ(gathered, sums);
      });
    }
  }
}

// The one that waits comes after all that were started, on every rank, whoever is late.
TEST(QueuedRanks, KeepOneOrder) {
  for (int late = 0; late < 3; ++late) {
    const auto before = [late](int rank, int64_t call) {
      if (rank == late && call % 3 == 0) std::this_thread::sleep_for(std::chrono::milliseconds(2));
    };
    ThreadRanks(3, {.before = before}).run([](const Ranks& group) {
      std::vector<std::vector<float>> numbers(20, std::vector<float>(5, 1));
      for (std::vector<float>& one : numbers) group->start_all_reduce(DType::f32, bytes_of(one), 5);
      EXPECT_EQ(sum_over(*group, 1), 3);
      for (std::vector<float>& one : numbers) {
        EXPECT_EQ(one, std::vector<float>(5, 3));
        group->finish(bytes_of(one));
      }
    });
  }
}

// The caller is free while another rank is late.
TEST(QueuedRanks, DoNotWaitWhereTheyStart) {
  ThreadRanks(2).run([](const Ranks& group) {
    std::vector<float> numbers(3, 1);
    std::atomic<bool> started = false;
    static std::atomic<int> free = 0;
    free = 0;
    group->barrier();
    if (group->rank() == 1) {
      while (free == 0)
        std::this_thread::sleep_for(std::chrono::milliseconds(1));  // rank 0 has gone on without this one
    }
    group->start_all_reduce(DType::f32, bytes_of(numbers), 3);
    started = true;
    if (group->rank() == 0) free = 1;
    group->finish(bytes_of(numbers));
    EXPECT_TRUE(started);
    EXPECT_EQ(numbers, std::vector<float>(3, 2));
  });
}

TEST(QueuedRanks, TellWhereItIsFinishedWhatFailed) {
  const auto before = [](int rank, int64_t call) {
    if (rank == 1 && call == 2) throw InputError({.source = "data.csv", .line = 3}, "no number");
  };
  const auto steps = [](const Ranks& group) {
    std::vector<std::vector<float>> numbers(5, std::vector<float>(4, 1));
    for (std::vector<float>& one : numbers) group->start_all_reduce(DType::f32, bytes_of(one), 4);
    group->drain();  // throws nothing
    for (std::vector<float>& one : numbers) group->finish(bytes_of(one));
    ADD_FAILURE() << "rank " << group->rank() << " did not hear of it";
  };
  EXPECT_THROW(ThreadRanks(3, {.before = before}).run(steps), InputError);
}

TEST(QueuedRanks, StartMoreThanTheQueueHolds) {
  ThreadRanks group(1);
  QueuedRanks queued(group.rank(0), 2);
  std::vector<float> numbers(1, 1);
  for (int i = 0; i < 50; ++i) queued.start_all_reduce(DType::f32, bytes_of(numbers), 1);
  queued.finish(bytes_of(numbers));
  EXPECT_EQ(numbers[0], 1);
}

}  // namespace
}  // namespace plimsoll::device
