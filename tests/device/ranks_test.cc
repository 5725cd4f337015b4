// Ranks that are threads of this process: what the collectives give, and what happens when a rank fails.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <thread>
#include <vector>

#include "plimsoll/base/error.h"
#include "plimsoll/device/gather.h"
#include "plimsoll/device/mpi.h"
#include "plimsoll/device/thread_ranks.h"

namespace plimsoll::device {
namespace {

using Ranks = std::shared_ptr<Communicator>;

template <class T>
std::byte* bytes_of(std::vector<T>& data) {
  return reinterpret_cast<std::byte*>(data.data());
}

// Rank r has r * 1000 + i.
std::vector<float> numbers_of(int rank, int64_t elements) {
  std::vector<float> numbers(static_cast<size_t>(elements));
  for (size_t i = 0; i < numbers.size(); ++i) numbers[i] = static_cast<float>(rank * 1000) + static_cast<float>(i);
  return numbers;
}

TEST(Shards, CoverAllElementsInOrder) {
  for (const int64_t elements : {0, 1, 3, 7, 8, 1000}) {
    for (const int ranks : {1, 2, 3, 4, 16}) {
      int64_t end = 0;
      for (int rank = 0; rank < ranks; ++rank) {
        const Shard shard = shard_of(elements, ranks, rank);
        EXPECT_EQ(shard.first, end);
        EXPECT_LE(shard.size(), shard_elements(elements, ranks));
        end = shard.end;
      }
      EXPECT_EQ(end, elements);
    }
  }
}

TEST(Shards, OfSamplesDifferByOneAtMost) {
  for (const int64_t batch : {4, 5, 10, 64}) {
    for (const int ranks : {1, 2, 3, 4}) {
      int64_t end = 0;
      for (int rank = 0; rank < ranks; ++rank) {
        const Shard samples = samples_of(batch, ranks, rank);
        EXPECT_EQ(samples.first, end);
        EXPECT_GE(samples.size(), batch / ranks);
        EXPECT_LE(samples.size(), batch / ranks + 1);
        end = samples.end;
      }
      EXPECT_EQ(end, batch);
    }
  }
}

TEST(Gather, GivesAllRanksWhatEachSays) {
  ThreadRanks(3).run([](const Ranks& group) {
    const std::vector<std::string> said = {"", "one", std::string(3000, 'x')};
    const auto rank = static_cast<size_t>(group->rank());
    EXPECT_EQ(gather_texts(*group, said[rank]), said);
    EXPECT_EQ(gather_texts(*group, ""), std::vector<std::string>(3));
    const std::vector<std::vector<double>> values = {{0, 1}, {0.5, 1}, {1, 1}};
    EXPECT_EQ(gather_values(*group, values[rank]), values);
    EXPECT_EQ(gather_values(*group, {}), std::vector<std::vector<double>>(3));
  });
}

TEST(ThreadRanks, SumScatterGatherAndBroadcast) {
  for (const int ranks : {1, 2, 3, 4}) {
    for (const int64_t elements : {0, 1, 2, 7, 257}) {
      ThreadRanks(ranks).run([&](const Ranks& group) {
        const int rank = group->rank();
        const auto total = static_cast<float>(1000 * ranks * (ranks - 1) / 2);
        std::vector<float> all = numbers_of(rank, elements);
        std::vector<float> own(static_cast<size_t>(shard_elements(elements, ranks)));
        group->reduce_scatter(DType::f32, bytes_of(all), elements, bytes_of(own));
        EXPECT_EQ(all, numbers_of(rank, elements));
        const Shard shard = shard_of(elements, ranks, rank);
        for (int64_t i = shard.first; i < shard.end; ++i) {
          EXPECT_EQ(own[static_cast<size_t>(i - shard.first)], total + static_cast<float>(ranks * i));
        }
        std::vector<float> sums = all;
        group->all_reduce(DType::f32, bytes_of(sums), elements);
        std::vector<float> gathered(static_cast<size_t>(elements));
        for (int64_t i = shard.first; i < shard.end; ++i)
          gathered[static_cast<size_t>(i)] = sums[static_cast<size_t>(i)];
        group->all_gather(DType::f32, bytes_of(gathered), elements);
        EXPECT_EQ(gathered, sums);
        group->broadcast(std::as_writable_bytes(std::span(all)), ranks - 1);
        EXPECT_EQ(all, numbers_of(ranks - 1, elements));
        group->barrier();
      });
    }
  }
}

TEST(ThreadRanks, AgreeOnNumbersAndTexts) {
  ThreadRanks(3).run([](const Ranks& group) {
    EXPECT_EQ(least_over(*group, 10 - group->rank()), 8);
    EXPECT_EQ(most_over(*group, 10 - group->rank()), 10);
    EXPECT_EQ(sum_over(*group, 0.5), 1.5);
    EXPECT_EQ(broadcast_text(*group, group->rank() == 0 ? "a plan" : ""), "a plan");
    require_same_text(*group, "a plan", "plans");
  });
  const auto differ = [](const Ranks& group) { require_same_text(*group, group->rank() == 2 ? "x" : "y", "plans"); };
  try {
    ThreadRanks(3).run(differ);
    FAIL();
  } catch (const RankError& error) {
    EXPECT_EQ(std::string(error.what()).substr(0, 56), "plans differ between ranks: rank 2 has others than rank ");
  }
}

// 1e8 + 1 - 1e8 is 0 or 1 in f32, by the order.
TEST(ThreadRanks, SumInTheOrderOfRanksWhateverTheDelays) {
  for (int late = 0; late < 3; ++late) {
    const auto before = [late](int rank, int64_t) {
      if (rank == late) std::this_thread::sleep_for(std::chrono::milliseconds(5));
    };
    ThreadRanks(3, {.before = before}).run([](const Ranks& group) {
      std::vector<float> numbers = {std::vector<float>{1e8F, -1e8F, 1}[static_cast<size_t>(group->rank())]};
      group->all_reduce(DType::f32, bytes_of(numbers), 1);
      EXPECT_EQ(numbers[0], 1);
    });
  }
}

TEST(ThreadRanks, TheFailureOfOneEndsAllAndIsTold) {
  const auto start = std::chrono::steady_clock::now();
  std::atomic<int> ended = 0;
  const auto before = [](int rank, int64_t call) {
    if (rank == 1 && call == 2) throw InputError({.source = "data.csv", .line = 3}, "no number");
  };
  const auto steps = [&](const Ranks& group) {
    try {
      for (int i = 0; i < 100; ++i) sum_over(*group, 1);
    } catch (const RankError&) {
      ++ended;
      throw;
    }
  };
  EXPECT_THROW(ThreadRanks(4, {.before = before}).run(steps), InputError);
  EXPECT_EQ(ended, 3);
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(10));
}

TEST(ThreadRanks, WaitNoLongerThanTheyMay) {
  const auto steps = [](const Ranks& group) {
    if (group->rank() == 0) std::this_thread::sleep_for(std::chrono::milliseconds(300));
    group->barrier();
  };
  EXPECT_THROW(ThreadRanks(2, {.timeout_s = 0.05}).run(steps), RankError);
}

TEST(ThreadRanks, TellWhatDoesNotMatch) {
  try {
    ThreadRanks(2).run([](const Ranks& group) {
      std::vector<float> numbers(group->rank() == 0 ? 3 : 4);
      group->all_reduce(DType::f32, bytes_of(numbers), static_cast<int64_t>(numbers.size()));
    });
    FAIL();
  } catch (const RankError& error) {
    EXPECT_STREQ(error.what(), "rank 0 is at all_reduce of 3 f32, rank 1 at all_reduce of 4 f32");
  }
}

TEST(ThreadRanks, SumNoTypeThatHasNoSum) {
  EXPECT_THROW(ThreadRanks(2).run([](const Ranks& group) {
    std::vector<uint16_t> numbers(3);
    group->all_reduce(DType::bf16, bytes_of(numbers), 3);
  }),
               ArgumentError);
}

TEST(Mpi, RanksAreFoundInTheEnvironment) {
  const std::vector<const char*> variables = {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "SLURM_STEP_NUM_TASKS"};
  for (const char* variable : variables) unsetenv(variable);
  EXPECT_EQ(launched_ranks(), std::nullopt);
  EXPECT_EQ(join_mpi(), nullptr);
  for (const char* variable : variables) {
    setenv(variable, "4", 1);
    EXPECT_EQ(launched_ranks(), 4);
    setenv(variable, "1", 1);
    EXPECT_EQ(join_mpi(), nullptr);  // alone: nothing is loaded
    setenv(variable, "four", 1);
    EXPECT_EQ(launched_ranks(), std::nullopt);
    unsetenv(variable);
  }
}

}  // namespace
}  // namespace plimsoll::device
