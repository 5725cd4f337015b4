#include "plimsoll/memory/pool.h"

#include <gtest/gtest.h>

#include <cstring>
#include <numeric>

#include "plimsoll/base/bytes.h"
#include "plimsoll/memory/file_pages.h"
#include "tests/memory/failing_pages.h"
#include "tests/memory/logged_order.h"

namespace plimsoll {
namespace {

constexpr int64_t kPage = 64 * kKiB;

// A pool of 64 pages that logs what it does with streams.
struct Fixture {
  StrictPages pages{kPage, kGiB};
  trace::Recorder recorder{1000};
  LoggedOrder order;
  Pool pool{pages, {64 * kPage, "--budget"}, recorder, &order};
};

OomReport failure(Pool& pool, const Request& request) {
  try {
    pool.free(pool.allocate(request));
  } catch (const ResourceExhausted& error) {
    return error.report();
  }
  ADD_FAILURE() << format_bytes(request.bytes) << " fitted";
  return {};
}

TEST(Pool, GivesBlocksOfAtLeastTheBytesAskedForAligned) {
  Fixture fixture;
  for (const int64_t bytes : {int64_t{1}, int64_t{255}, int64_t{257}, int64_t{5000}, kPage + 1, 7 * kPage}) {
    const Block block = fixture.pool.allocate(bytes);
    EXPECT_GE(block.bytes, bytes);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(block.data) % Pool::kAlignment, 0u);
    fixture.pool.free(block);
  }
}

TEST(Pool, GivesZeroBytesWithoutMemory) {
  Fixture fixture;
  const Block block = fixture.pool.allocate(0);
  EXPECT_EQ(block.data, nullptr);
  fixture.pool.free(block);
  EXPECT_EQ(fixture.pool.stats().reserved_bytes, 0);
}

TEST(Pool, LeavesNothingBehind) {
  StrictPages pages(kPage, kGiB);
  trace::Recorder recorder(0);
  {
    Pool pool(pages, {64 * kPage, "test"}, recorder);
    const Block small = pool.allocate(300);
    const Block large = pool.allocate(5 * kPage);
    pool.free(small);
    pool.free(large);
  }
  EXPECT_TRUE(pages.nothing_left());
}

TEST(Pool, ThatWasNeverUsedEndsInPeaceOnRealPages) {
  FilePages pages = FilePages::host(kPage);
  trace::Recorder recorder(0);
  const Pool pool(pages, {64 * kPage, "test"}, recorder);
}

TEST(Pool, WorksOnPagesOfAnySize) {
  for (int64_t page = 256; page <= kGiB; page *= 4) {
    StrictPages pages(page, 64 * page);
    trace::Recorder recorder(0);
    Pool pool(pages, {64 * page, "test"}, recorder);
    std::vector<Block> blocks;
    for (int64_t bytes = 1; bytes < 16 * page; bytes *= 3) blocks.push_back(pool.allocate(bytes));
    for (const Block& block : blocks) pool.free(block);
    EXPECT_EQ(pool.stats().live_bytes, 0);
  }
}

TEST(Pool, PlacesHalfATebibyteInOnePiece) {
  StrictPages pages(kGiB, 4 * kTiB);
  trace::Recorder recorder(0);
  Pool pool(pages, {2 * kTiB, "test"}, recorder);
  const Block block = pool.allocate(510 * kGiB);
  pool.free(block);
  EXPECT_THROW(pool.allocate(kTiB), ResourceExhausted) << "more than an extent can hold";
}

TEST(Pool, RefusesRequestsThatMakeNoSense) {
  Fixture fixture;
  EXPECT_THROW(fixture.pool.allocate(-1), ArgumentError);
  EXPECT_THROW(fixture.pool.allocate({.bytes = 256, .stream = -1}), ArgumentError);
  EXPECT_THROW(fixture.pool.allocate(INT64_MAX), ResourceExhausted);
  EXPECT_EQ(fixture.pool.stats().live_blocks, 0);
}

TEST(Pool, RefusesABudgetBelowAPage) {
  StrictPages pages(kPage, kGiB);
  trace::Recorder recorder(0);
  EXPECT_THROW(Pool(pages, {kPage - 1, "test"}, recorder), ArgumentError);
  EXPECT_THROW(Pool(pages, {-1, "test"}, recorder), ArgumentError);
}

TEST(Pool, RefusesADoubleFree) {
  Fixture fixture;
  for (const int64_t bytes : {int64_t{256}, 2 * kPage}) {
    const Block block = fixture.pool.allocate(bytes);
    fixture.pool.free(block);
    EXPECT_THROW(fixture.pool.free(block), ArgumentError);
    const Block next = fixture.pool.allocate(bytes);  // takes the same place
    EXPECT_THROW(fixture.pool.free(block), ArgumentError);
    fixture.pool.free(next);
  }
}

TEST(Pool, RefusesBlocksOfAnotherPool) {
  FilePages pages = FilePages::host(kPage);
  trace::Recorder recorder(0);
  Pool one(pages, {64 * kPage, "test"}, recorder);
  Pool other(pages, {64 * kPage, "test"}, recorder);
  for (const int64_t bytes : {int64_t{256}, 2 * kPage}) {
    const Block ours = one.allocate(bytes);
    const Block theirs = other.allocate(bytes);
    EXPECT_THROW(one.free(theirs), ArgumentError);
    EXPECT_THROW(one.free(Block{ours.data, bytes, 1000, 1}), ArgumentError);
    one.free(ours);
    other.free(theirs);
  }
}

TEST(Pool, RefusesToFreeOnANegativeStream) {
  Fixture fixture;
  const Block block = fixture.pool.allocate(256);
  EXPECT_THROW(fixture.pool.free(block, -1), ArgumentError);
  fixture.pool.free(block);
}

TEST(Pool, CountsWhatIsAliveAndItsPeak) {
  Fixture fixture;
  const Block small = fixture.pool.allocate(100);
  const Block large = fixture.pool.allocate(3 * kPage);
  EXPECT_EQ(fixture.pool.stats().live_bytes, 256 + 3 * kPage);
  EXPECT_EQ(fixture.pool.stats().live_blocks, 2);
  EXPECT_EQ(fixture.pool.stats().reserved_bytes, 4 * kPage);
  EXPECT_EQ(fixture.pool.stats().pages_committed, 4);
  fixture.pool.free(large);
  EXPECT_EQ(fixture.pool.stats().live_peak_bytes, 256 + 3 * kPage);
  fixture.pool.trim();
  EXPECT_EQ(fixture.pool.stats().reserved_peak_bytes, 4 * kPage);
  fixture.pool.reset_peak();
  EXPECT_EQ(fixture.pool.stats().live_peak_bytes, 256);
  EXPECT_EQ(fixture.pool.stats().reserved_peak_bytes, kPage);
  fixture.pool.free(small);
}

TEST(Pool, TrimsWhatIsFreeAndWorksAfterwards) {
  Fixture fixture;
  for (int round = 0; round < 3; ++round) {
    const Block kept = fixture.pool.allocate(2 * kPage);
    const Block large = fixture.pool.allocate(5 * kPage);
    const Block small = fixture.pool.allocate(300);
    fixture.pool.free(large);
    fixture.pool.free(small);
    EXPECT_EQ(fixture.pool.trim(), 6 * kPage);
    EXPECT_EQ(fixture.pages.created_pages(), 2);
    fixture.pool.free(kept);
    EXPECT_EQ(fixture.pool.trim(), 2 * kPage);
    EXPECT_EQ(fixture.pages.created_pages(), 0);
  }
}

// A view that is in use is shown with fewer pages than it has; trim takes the others, which must not come back in it.
TEST(Pool, ShowsNoTrimmedPagesInAViewThatWasInUse) {
  FilePages pages = FilePages::host(kPage);
  trace::Recorder recorder(0);
  Pool pool(pages, {16 * kPage, "test"}, recorder);
  std::vector<Block> blocks;
  for (int i = 0; i < 16; ++i) blocks.push_back(pool.allocate(kPage));
  for (size_t i = 0; i < 16; i += 2) pool.free(blocks[i]);
  Block view = pool.allocate(8 * kPage);  // stitched of the eight free pages
  EXPECT_EQ(pool.stats().remapping_allocations, 1);
  pool.free(view);
  view = pool.allocate(3 * kPage);  // the same view, for less
  EXPECT_EQ(pool.stats().remapping_allocations, 1);
  pool.trim();
  pool.free(view);
  const Block whole = pool.allocate(8 * kPage);
  std::memset(whole.data, 1, static_cast<size_t>(whole.bytes));
  for (size_t i = 1; i < 16; i += 2) std::memset(blocks[i].data, 2, static_cast<size_t>(blocks[i].bytes));
  for (int64_t byte = 0; byte < whole.bytes; byte += 512) ASSERT_EQ(whole.data[byte], std::byte{1});
  pool.free(whole);
  for (size_t i = 1; i < 16; i += 2) pool.free(blocks[i]);
}

TEST(Pool, TrimsAPageWhoseHalvesWereFreedOnTwoStreams) {
  Fixture fixture;
  const Block one = fixture.pool.allocate({.bytes = kPage / 2, .stream = 1});
  const Block two = fixture.pool.allocate({.bytes = kPage / 2, .stream = 2});
  EXPECT_EQ(fixture.pages.created_pages(), 1);
  fixture.pool.free(one);
  fixture.pool.free(two);
  EXPECT_EQ(fixture.pool.trim(), kPage);
  EXPECT_EQ(fixture.pages.created_pages(), 0);
}

TEST(Pool, ReusesAcrossStreamsOnlyAfterAWait) {
  for (const int64_t bytes : {3 * kPage, int64_t{1000}}) {
    StrictPages pages(kPage, kGiB);
    trace::Recorder recorder(0);
    LoggedOrder order;
    Pool pool(pages, {4 * kPage, "test"}, recorder, &order);
    pool.free(pool.allocate({.bytes = bytes, .stream = 1}));
    EXPECT_TRUE(order.waits.empty());
    const Block block = pool.allocate({.bytes = 3 * kPage, .stream = 2});
    const bool waited = order.waits == LoggedOrder::Waits{{2, 1}};
    EXPECT_TRUE(waited || bytes == 1000) << "small blocks are on pages of their own";
    pool.free(block);
  }
}

TEST(Pool, WaitsOnceWhenAnotherStreamUsedABlockLast) {
  Fixture fixture;
  const auto use = [&](int64_t bytes) {
    fixture.order.waits.clear();
    const Block block = fixture.pool.allocate({.bytes = bytes, .stream = 2});
    fixture.pool.free(block, 1);
  };
  use(1000);
  EXPECT_EQ(fixture.order.waits, (LoggedOrder::Waits{{2, 1}})) << "a small block stays with its slab's stream";
  fixture.pool.free(fixture.pool.allocate({.bytes = 1000, .stream = 2}));
  EXPECT_EQ(fixture.order.waits.size(), 1u);

  use(3 * kPage);
  EXPECT_TRUE(fixture.order.waits.empty()) << "a large block is the other stream's: nobody waits yet";
  fixture.pool.free(fixture.pool.allocate({.bytes = 3 * kPage, .stream = 1}));
  EXPECT_TRUE(fixture.order.waits.empty()) << "that stream takes it without a wait";
  fixture.pool.free(fixture.pool.allocate({.bytes = 3 * kPage, .stream = 2}));
  EXPECT_EQ(fixture.order.waits, (LoggedOrder::Waits{{2, 1}})) << "the first stream takes it back behind an event";
}

TEST(Pool, AsksReclaimersInOrderUntilTheRequestFits) {
  Fixture fixture;
  std::vector<Block> caches = {fixture.pool.allocate(30 * kPage), fixture.pool.allocate(30 * kPage)};
  std::vector<int> asked;
  for (int i = 0; i < 3; ++i) {
    fixture.pool.add_reclaim("cache " + std::to_string(i), [&, i](int64_t bytes) {
      EXPECT_EQ(bytes, 60 * kPage);
      asked.push_back(i);
      if (i == 2) ADD_FAILURE() << "enough was free";
      fixture.pool.free(caches[static_cast<size_t>(i)]);
      return 30 * kPage;
    });
  }
  fixture.pool.free(fixture.pool.allocate(60 * kPage));
  EXPECT_EQ(asked, (std::vector<int>{0, 1}));
}

TEST(Pool, ReportsWhatWasTriedInOrder) {
  Fixture fixture;
  const Block block = fixture.pool.allocate(60 * kPage);
  fixture.pool.add_reclaim("caches", [](int64_t) { return int64_t{0}; });
  fixture.pool.add_reclaim("spill", [](int64_t) { return kMiB; });
  EXPECT_EQ(failure(fixture.pool, {.bytes = 5 * kPage}).tried,
            (std::vector<std::string>{"caches: 0 B freed", "spill: 1.00 MiB freed"}));
  fixture.pool.free(block);
}

TEST(Pool, ReportsWhoHoldsWhat) {
  Fixture fixture;
  Pool& pool = fixture.pool;
  std::vector<Block> blocks;
  blocks.push_back(pool.allocate({.bytes = 8 * kPage, .tag = pool.tag(Category::parameter, "fc.weight")}));
  for (int i = 0; i < 11; ++i) {
    blocks.push_back(pool.allocate({.bytes = 1000, .tag = pool.tag(Category::gradient, "bias.grad")}));
  }
  blocks.push_back(pool.allocate({.bytes = 51 * kPage, .tag = pool.tag(Category::activation, "conv1.out")}));
  pool.free(pool.allocate(2 * kPage));  // freed a moment ago is not alive
  const TensorSpec spec{DType::f32, parse_shape("384x192")};
  const OomReport report = failure(
      pool, {.bytes = spec.bytes(), .tag = pool.tag(Category::activation, "fc.out"), .spec = &spec, .op = "matmul"});
  EXPECT_TRUE(report.first_line().starts_with(
      "OOM when allocating tensor with shape[384,192] and type float on strict by allocator pool: 288.00 KiB asked for "
      "fc.out in op matmul"))
      << report.first_line();
  EXPECT_EQ(report.requested_bytes, spec.bytes());
  EXPECT_EQ(report.budget.source, "--budget");
  EXPECT_EQ(report.live_bytes, 59 * kPage + 11 * 1024);
  EXPECT_EQ(std::accumulate(report.live_by_category.begin(), report.live_by_category.end(), int64_t{0}),
            report.live_bytes);
  EXPECT_EQ(report.live_by_category[static_cast<size_t>(Category::gradient)], 11 * 1024);
  ASSERT_EQ(report.largest_live.size(), 10u);
  EXPECT_EQ(report.largest_live[0].tag, "conv1.out");
  EXPECT_EQ(report.largest_live[1].tag, "fc.weight");
  EXPECT_EQ(report.largest_live[1].category, Category::parameter);
  for (const Block& block : blocks) pool.free(block);
}

TEST(Pool, ReportsABudgetThatWouldDo) {
  Fixture fixture;
  std::vector<Block> blocks;
  for (int i = 0; i < 40; ++i) blocks.push_back(fixture.pool.allocate(kPage + 256));
  const OomReport report = failure(fixture.pool, {.bytes = 25 * kPage - 10});
  EXPECT_EQ(report.requested_bytes, 25 * kPage - 10);
  EXPECT_EQ(report.help.at(0).find('-'), std::string::npos) << report.help.at(0);
  std::string needed = report.help.at(0).substr(report.help.at(0).find('(') + 1);  // "4,325,376 B), or ..."
  std::erase(needed, ',');
  StrictPages pages(kPage, kGiB);
  trace::Recorder recorder(0);
  Pool larger(pages, {parse_bytes(needed.substr(0, needed.find(')'))), "the advice"}, recorder);
  std::vector<Block> again;
  for (int i = 0; i < 40; ++i) again.push_back(larger.allocate(kPage + 256));
  EXPECT_NO_THROW(again.push_back(larger.allocate(25 * kPage - 10))) << report.help.at(0);
  for (const Block& block : again) larger.free(block);
  for (const Block& block : blocks) fixture.pool.free(block);
}

TEST(Pool, RecordsATraceWithItsLivePeak) {
  Fixture fixture;
  const uint32_t tag = fixture.pool.tag(Category::activation, "x");
  const Block first = fixture.pool.allocate({.bytes = 3 * kPage, .tag = tag});
  const Block second = fixture.pool.allocate({.bytes = 500, .tag = tag});
  fixture.pool.free(first);
  fixture.pool.free(fixture.pool.allocate({.bytes = kPage, .tag = tag, .stream = 3}), 5);
  fixture.pool.free(second);
  const trace::Trace trace = fixture.recorder.take();
  EXPECT_EQ(trace.events.size(), 6u);
  EXPECT_EQ(trace.dropped, 0);
  EXPECT_EQ(trace::live_peak_bytes(trace), fixture.pool.stats().live_peak_bytes);
  EXPECT_EQ(trace.tags[trace.events[0].tag].name, "x");
}

}  // namespace
}  // namespace plimsoll
