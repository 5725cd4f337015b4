// NCCL on a card, with one rank: more need more cards.
#include "plimsoll/device/cuda/nccl.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "plimsoll/base/bytes.h"
#include "plimsoll/base/error.h"
#include "plimsoll/device/cuda/card_ranks.h"
#include "plimsoll/device/cuda/paper.h"
#include "plimsoll/device/cuda/runtime.h"
#include "plimsoll/device/stream_ranks.h"
#include "plimsoll/device/thread_ranks.h"
#include "plimsoll/kernels/collective.h"
#include "tests/cuda/card.h"
#include "tests/cuda/collective_step.h"

namespace plimsoll {
namespace {

// Why this cannot run here; empty where it can.
std::string missing() {
  if (!has_card()) return "there is no card";
  try {
    cuda::Nccl::get();
  } catch (const cuda::NcclMissing& error) {
    return error.what();
  }
  return {};
}

TEST(NcclOnACard, GivesInAGraphWhatTheHostDoes) {
  if (const std::string why = missing(); !why.empty()) GTEST_SKIP() << why;
  device::Device& card = device::find_device("cuda");
  const cuda::Runtime& runtime = cuda::Runtime::current();
  const int64_t free = runtime.free_bytes();
  const auto alone = device::ThreadRanks(1).rank(0);
  const auto ranks = device::join_cards(alone, card);
  fmt::print("NCCL {} takes {} of the card, {} are booked\n", cuda::Nccl::get().version(),
             format_bytes(free - runtime.free_bytes()), format_bytes(ranks->on_streams()->device_bytes()));
  for (const int64_t elements : {7, 100'000}) {
    std::vector<std::vector<std::vector<float>>> expected;
    {
      const kernels::CommunicatorScope scope(alone);
      expected = collective_results("cpu", 0, 1, elements, 1);
    }
    const kernels::CommunicatorScope scope(ranks);
    const auto results = collective_results(card.traits().name, 0, 1, elements, 5);
    for (const auto& step : results) EXPECT_EQ(step, expected[0]);
  }
  EXPECT_LE(free - runtime.free_bytes(), ranks->on_streams()->device_bytes());
}

// Not the sums, which have a communicator: their f32 copies, and shards that are moved by launches.
TEST(NcclOnPaper, KernelsCompile) {
  if (cuda::CompileOnly::architecture() == nullptr) GTEST_SKIP() << "for paper alone";
  for (const DType dtype : {DType::f32, DType::f16, DType::bf16}) {
    program::Builder b;
    const program::Value x = b.parameter("x", {dtype, {1001}});
    b.output(program::all_reduce(b, program::clone(b, x), 8));
    b.output(program::reduce_scatter(b, program::clone(b, x), 8));
    const program::Value pack = program::pack_shards(b, std::vector<program::Value>{x}, 8);
    b.output(program::take_shards(b, program::clone(b, x), pack, 0, 8));
    EXPECT_NO_THROW(
        run::Session(std::move(b).finish(), {.device = "cuda", .threads = 1}, device::find_device("cuda").budget()));
  }
}

}  // namespace
}  // namespace plimsoll
