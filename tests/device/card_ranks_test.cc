// Ranks on cards: NCCL's collectives as the stand-in has them, beside those of ranks that are threads.
#include "plimsoll/device/cuda/card_ranks.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <latch>

#include "plimsoll/base/error.h"
#include "plimsoll/base/oom.h"
#include "plimsoll/device/cuda/nccl.h"
#include "tests/device/on_cards.h"

namespace plimsoll::device {
namespace {

using cuda::Nccl;
using cuda::NcclError;
using cuda::NcclMissing;
using Ranks = std::shared_ptr<Communicator>;

// Sums of these depend on the order in f32.
std::vector<float> numbers_of(int rank, int64_t elements) {
  std::vector<float> numbers(static_cast<size_t>(elements));
  for (size_t i = 0; i < numbers.size(); ++i) {
    numbers[i] = static_cast<float>(rank * 1000) + static_cast<float>(i) / 3 + (rank == 1 ? 1e7F : 0.0F);
  }
  return numbers;
}

std::byte* bytes_of(std::vector<float>& data) { return reinterpret_cast<std::byte*>(data.data()); }

// What a rank has after one of each collective.
struct Results {
  std::vector<float> sums;
  std::vector<float> own;
  std::vector<float> gathered;
  std::vector<float> same;
  bool operator==(const Results&) const = default;
};

// `gathered` starts as the rank's shard of its numbers, and nothing else.
std::vector<float> shard_alone(const Communicator& ranks, int64_t elements) {
  std::vector<float> numbers = numbers_of(ranks.rank(), elements);
  const Shard own = shard_of(elements, ranks.ranks(), ranks.rank());
  for (int64_t i = 0; i < elements; ++i) {
    if (i < own.first || i >= own.end) numbers[static_cast<size_t>(i)] = -1;
  }
  return numbers;
}

Results of_threads(Communicator& ranks, int64_t elements) {
  Results results;
  results.sums = results.same = numbers_of(ranks.rank(), elements);
  std::vector<float> all = results.sums;
  results.own.resize(static_cast<size_t>(shard_elements(elements, ranks.ranks())));
  results.gathered = shard_alone(ranks, elements);
  ranks.reduce_scatter(DType::f32, bytes_of(all), elements, bytes_of(results.own));
  ranks.all_reduce(DType::f32, bytes_of(results.sums), elements);
  ranks.all_gather(DType::f32, bytes_of(results.gathered), elements);
  ranks.broadcast(std::as_writable_bytes(std::span(results.same)), ranks.ranks() - 1);
  return results;
}

// The same in the memory of a card.
class OnCardResults {
 public:
  OnCardResults(OnCard& rank, int64_t elements)
      : rank_(rank),
        elements_(elements),
        sums_(rank.card, numbers_of(rank.ranks->rank(), elements)),
        all_(rank.card, numbers_of(rank.ranks->rank(), elements)),
        own_(rank.card, std::vector<float>(static_cast<size_t>(shard_elements(elements, rank.ranks->ranks())))),
        gathered_(rank.card, shard_alone(*rank.ranks, elements)),
        same_(rank.card, numbers_of(rank.ranks->rank(), elements)) {}
  // As an executor does: nothing is under way in memory that goes.
  ~OnCardResults() {
    rank_.ranks->drain();
    try {
      rank_.stream->synchronize();
    } catch (const Error&) {  // was told
    }
  }
  OnCardResults(const OnCardResults&) = delete;
  OnCardResults& operator=(const OnCardResults&) = delete;

  void enqueue() {
    StreamRanks& on = rank_.on_streams();
    Stream& stream = *rank_.stream;
    on.start_reduce_scatter(stream, DType::f32, all_.at(), elements_, own_.at());
    on.start_all_reduce(stream, DType::f32, sums_.at(), elements_);
    on.start_all_gather(stream, DType::f32, gathered_.at(), elements_);
    on.finish(stream, own_.at());
    on.start_broadcast(stream, same_.at(), 4 * elements_, rank_.ranks->ranks() - 1);
    on.finish(stream, sums_.at());
    on.finish(stream, same_.at());
    on.finish(stream, gathered_.at());
  }
  void write() {
    sums_.write(numbers_of(rank_.ranks->rank(), elements_));
    gathered_.write(shard_alone(*rank_.ranks, elements_));
    same_.write(numbers_of(rank_.ranks->rank(), elements_));
  }
  Results read() const {
    rank_.stream->synchronize();
    return {sums_.read(), own_.read(), gathered_.read(), same_.read()};
  }

 private:
  OnCard& rank_;
  int64_t elements_;
  CardFloats sums_;
  CardFloats all_;
  CardFloats own_;
  CardFloats gathered_;
  CardFloats same_;
};

std::vector<Results> all_of_threads(int ranks, int64_t elements) {
  std::vector<Results> results(static_cast<size_t>(ranks));
  ThreadRanks(ranks).run(
      [&](const Ranks& group) { results[static_cast<size_t>(group->rank())] = of_threads(*group, elements); });
  return results;
}

TEST(NcclLibrary, SaysWhatIsMissingAndWhatToInstall) {
  for (const char* library : {"libno-such-nccl.so.2", "libc.so.6"}) {
    try {
      Nccl::load(library);
      FAIL() << "loaded";
    } catch (const NcclMissing& error) {
      const std::string text = error.what();
      EXPECT_NE(text.find("libnccl2"), std::string::npos) << text;
      EXPECT_NE(text.find(library), std::string::npos) << text;
    }
  }
  stand_in_nccl_reset(0, 20903);
  EXPECT_THROW(Nccl::load("libnccl.so.2"), NcclMissing);
  stand_in_nccl_reset();
  EXPECT_EQ(Nccl::load("libnccl.so.2").version(), "2.28.3");
}

TEST(NcclLibrary, TellsErrorsInItsOwnWords) {
  stand_in_nccl_reset();
  const Nccl& nccl = Nccl::get();
  EXPECT_NO_THROW(nccl.check(0, "ncclAllReduce"));
  try {
    nccl.check(1, "ncclAllReduce of 4 B");
    FAIL();
  } catch (const NcclError& error) {
    EXPECT_EQ(std::string(error.what()).substr(0, 49), "ncclAllReduce of 4 B failed: unhandled cuda error")
        << error.what();
    EXPECT_EQ(error.result(), 1);
  }
  EXPECT_EQ(cuda::nccl_type(DType::bf16), cuda::kNcclBfloat16);
  EXPECT_THROW(cuda::nccl_type(DType::boolean), ArgumentError);
}

TEST(CardRanks, GiveWhatThreadRanksDo) {
  for (const int ranks : {1, 2, 3, 4}) {
    use_cards(ranks);
    for (const int64_t elements : {0, 1, 2, 7, 12, 256, 257}) {
      const std::vector<Results> expected = all_of_threads(ranks, elements);
      run_on_cards(ranks, [&](OnCard& rank) {
        OnCardResults results(rank, elements);
        results.enqueue();
        EXPECT_EQ(results.read(), expected[static_cast<size_t>(rank.ranks->rank())]) << ranks << " " << elements;
      });
    }
    EXPECT_EQ(stand_in_counts().faults, 0);
    EXPECT_EQ(stand_in_nccl_counts().differing, 0);
    EXPECT_EQ(stand_in_nccl_counts().communicators, 0);
  }
}

TEST(CardRanks, RunInAGraph) {
  constexpr int kRanks = 3;
  use_cards(kRanks);
  for (const int64_t elements : {12, 257}) {
    const std::vector<Results> expected = all_of_threads(kRanks, elements);
    run_on_cards(kRanks, [&](OnCard& rank) {
      OnCardResults results(rank, elements);
      results.enqueue();
      rank.stream->synchronize();
      const std::unique_ptr<Kept> kept = rank.stream->keep([&] { results.enqueue(); });
      ASSERT_NE(kept, nullptr);
      for (int i = 0; i < 3; ++i) {
        results.write();
        kept->enqueue();
        EXPECT_EQ(results.read(), expected[static_cast<size_t>(rank.ranks->rank())]);
      }
    });
  }
  EXPECT_EQ(stand_in_counts().launches, 2 * 3 * kRanks);
  EXPECT_EQ(stand_in_counts().faults, 0);
  EXPECT_EQ(stand_in_nccl_counts().differing, 0);
}

// What does not come back to the stream that is captured is no graph, and the next step runs as before.
TEST(CardRanks, AreNotKeptUnfinished) {
  use_cards(2);
  run_on_cards(2, [&](OnCard& rank) {
    CardFloats data(rank.card, numbers_of(0, 8));
    const auto start = [&] { rank.on_streams().start_all_reduce(*rank.stream, DType::f32, data.at(), 8); };
    EXPECT_EQ(rank.stream->keep(start), nullptr);
    start();
    rank.on_streams().finish(*rank.stream, data.at());
    rank.stream->synchronize();
    EXPECT_EQ(data.read()[3], 2 * numbers_of(0, 8)[3]);
  });
}

// Work of the stream goes on while a collective is under way, which waits for a rank that is late.
TEST(CardRanks, OverlapWithOtherWork) {
  use_cards(2);
  std::latch seen(1);
  run_on_cards(2, [&](OnCard& rank) {
    CardFloats sum(rank.card, {1, 2, 3});
    CardFloats other(rank.card, {5, 6, 7});
    if (rank.ranks->rank() == 1) seen.wait();  // until rank 0 has its copy
    rank.on_streams().start_all_reduce(*rank.stream, DType::f32, sum.at(), 3);
    rank.stream->copy(other.at(), other.at(1), 4);
    if (rank.ranks->rank() == 0) {
      rank.stream->synchronize();  // of the copy alone
      EXPECT_EQ(other.read()[0], 6);
      EXPECT_EQ(sum.read()[0], 1);
      seen.count_down();
    }
    rank.on_streams().finish(*rank.stream, sum.at());
    rank.stream->synchronize();
    EXPECT_EQ(sum.read(), (std::vector<float>{2, 4, 6}));
  });
}

TEST(CardRanks, TellEachOtherOverTheHost) {
  use_cards(3);
  run_on_cards(3, [](OnCard& rank) {
    EXPECT_EQ(sum_over(*rank.ranks, 0.5), 1.5);
    EXPECT_EQ(broadcast_text(*rank.ranks, rank.ranks->rank() == 0 ? "a plan" : ""), "a plan");
    EXPECT_GT(rank.on_streams().seconds_of_sum(1), 0);
    rank.ranks->barrier();
  });
}

TEST(CardRanks, TakeACardEach) {
  use_cards(2);
  ThreadRanks(4).run([](const Ranks& group) {
    EXPECT_EQ(card_of_rank(*group, "cuda"), "cuda:" + std::to_string(group->rank() % 2));
    EXPECT_EQ(card_of_rank(*group, "cuda:1"), "cuda:1");
  });
  try {
    run_on_cards(3, [](OnCard&) {});
    FAIL() << "joined";
  } catch (const ArgumentError& error) {
    const std::string text = error.what();
    EXPECT_EQ(text.substr(0, 45), "ranks 0 and 2 have one card, 0000:1B:00.0 of ") << text;
  }
  EXPECT_EQ(stand_in_nccl_counts().communicators, 0);
}

TEST(CardRanks, BookWhatNcclTakes) {
  use_cards(1);
  Device& card = find_device("cuda:0");
  const int64_t before = card.overhead_bytes();
  run_on_cards(1, [&](OnCard& rank) {
    EXPECT_EQ(rank.on_streams().device_bytes(), kNcclBytes);
    EXPECT_EQ(card.overhead_bytes(), before + kNcclBytes);
  });
  EXPECT_EQ(card.overhead_bytes(), before);
  constexpr int64_t kMore = kNcclBytes + (int64_t{64} << 20);
  const int64_t budget = card.budget().bytes;
  stand_in_nccl_reset(kMore);
  run_on_cards(1, [&](OnCard& rank) {
    EXPECT_EQ(rank.on_streams().device_bytes(), kMore);
    EXPECT_EQ(card.overhead_bytes(), before + kMore);
    EXPECT_LE(card.budget().bytes, std::max<int64_t>(0, budget - kMore) + 4096);
  });
  stand_in_nccl_reset();
}

// What there is of the driver's and the library's things.
std::vector<int64_t> things() {
  const StandInCounts counts = stand_in_counts();
  return {counts.streams, counts.events,   counts.allocations, counts.graphs,
          counts.handles, counts.mappings, counts.ranges,      stand_in_nccl_counts().communicators};
}

// A step of each kind, kept as a graph.
void live(OnCard& rank) {
  OnCardResults results(rank, 7);
  results.enqueue();
  rank.stream->synchronize();
  if (const auto kept = rank.stream->keep([&] { results.enqueue(); })) {
    kept->enqueue();
    rank.stream->synchronize();
  }
}

TEST(CardRanks, WhateverCallFailsIsToldAndLeaksNothing) {
  use_cards(1);
  const int64_t before = stand_in_calls();
  run_on_cards(1, live);
  const int64_t calls = stand_in_calls() - before;
  ASSERT_GT(calls, 30);
  const std::vector<int64_t> at_rest = things();
  int64_t told = 0;
  for (int64_t n = 1; n <= calls; ++n) {
    stand_in_fail_at(n);
    try {
      run_on_cards(1, live);
    } catch (const SystemError& error) {  // of the driver or of NCCL
      ++told;
      EXPECT_NE(std::string(error.what()).find("failed"), std::string::npos) << error.what();
    } catch (const ResourceExhausted&) {  // of an arena's pages
      ++told;
    }
    stand_in_fail_at(0);
    EXPECT_EQ(things(), at_rest) << "call " << n;
  }
  EXPECT_GE(told, calls / 2);  // all but those of a capture, without which the step runs op by op
}

TEST(CardRanks, TheFailureOfOneEndsAll) {
  use_cards(2);
  run_on_cards(2, live);
  const std::vector<int64_t> at_rest = things();
  stand_in_wait_at_most(0.2);  // for the rank that failed: one that is only slow may take longer, above
  for (int64_t n = 1; n < 60; n += 7) {
    stand_in_fail_at(n);
    EXPECT_THROW(
        {
          run_on_cards(2, live, {.timeout_s = 0.2});
          throw SystemError("none failed, or one went on op by op");
        },
        Error)
        << n;
    stand_in_fail_at(0);
    EXPECT_EQ(things(), at_rest) << "call " << n;
  }
}

}  // namespace
}  // namespace plimsoll::device
