#include "plimsoll/device/cuda/pages.h"

#include <gtest/gtest.h>

#include <cstring>

#include "plimsoll/base/bytes.h"
#include "plimsoll/device/cuda/order.h"
#include "plimsoll/memory/pool.h"
#include "tests/device/stand_in/stand_in.h"

extern "C" {
plimsoll::cuda::Result cuStreamBeginCapture_v2(plimsoll::cuda::StreamHandle stream, int mode);
plimsoll::cuda::Result cuStreamEndCapture(plimsoll::cuda::StreamHandle stream, void** graph);
}

namespace plimsoll::cuda {
namespace {

constexpr int64_t kPage = 64 * kKiB;
constexpr StandInSettings kCard{.card_bytes = 64 * kPage, .granularity = kPage};

class CudaPagesTest : public testing::Test {
 protected:
  CudaPagesTest() { stand_in_reset(&kCard); }
  ~CudaPagesTest() override {
    const StandInCounts counts = stand_in_counts();
    EXPECT_EQ(counts.handles, 0);
    EXPECT_EQ(counts.mappings, 0);
    EXPECT_EQ(counts.ranges, 0);
    EXPECT_EQ(counts.events, 0);
    EXPECT_EQ(counts.faults, 0);
    EXPECT_EQ(counts.mismatches, 0);
  }

  Driver driver_ = Driver::load();
  CurrentDevice current_{driver_, 0};
};

TEST_F(CudaPagesTest, ShowsOnePageAtTwoAddresses) {
  CudaPages pages(driver_, 0);
  EXPECT_EQ(pages.device(), "cuda:0");
  EXPECT_EQ(pages.page_bytes(), kPage);
  std::byte* const range = pages.reserve(4 * kPage);
  PageId ids[2] = {};
  pages.create(ids);
  const PageId transposed[2] = {ids[1], ids[0]};
  pages.map(range, ids);
  pages.map(range + 2 * kPage, transposed);
  std::memset(range + kPage, 0, kPage);
  std::memset(range, 7, kPage);
  EXPECT_EQ(static_cast<int>(range[3 * kPage]), 7);
  EXPECT_EQ(static_cast<int>(range[2 * kPage]), 0);
  pages.unmap(range, 4);
  pages.destroy(ids);
  pages.release(range, 4 * kPage);
}

TEST_F(CudaPagesTest, RefusesMoreThanTheCardHas) {
  CudaPages pages(driver_, 0);
  std::vector<PageId> ids(65);
  EXPECT_THROW(pages.create(ids), PagesExhausted);
  EXPECT_EQ(stand_in_counts().handles, 0) << "all or none";
  EXPECT_EQ(pages.created_pages(), 0);
}

TEST_F(CudaPagesTest, AsksForPermissionFirst) {
  CudaPages pages(driver_, 0);
  pages.set_permit([](int64_t held_bytes, std::string& why) {
    why = "too much";
    return held_bytes <= 2 * kPage;
  });
  std::vector<PageId> two(2);
  pages.create(two);
  std::vector<PageId> one(1);
  EXPECT_THROW(pages.create(one), PagesExhausted);
  pages.destroy(two);
}

TEST_F(CudaPagesTest, MapsWhileAStreamCaptures) {
  CudaPages pages(driver_, 0);
  StreamHandle stream = nullptr;
  driver_.stream_create(&stream, 0);
  cuStreamBeginCapture_v2(stream, 0);
  std::byte* const range = pages.reserve(kPage);
  PageId id = 0;
  pages.create(std::span(&id, 1));
  pages.map(range, std::span(&id, 1));
  pages.unmap(range, 1);
  pages.destroy(std::span(&id, 1));
  pages.release(range, kPage);
  void* graph = nullptr;
  cuStreamEndCapture(stream, &graph);
  driver_.stream_destroy(stream);
}

// A stream that is there for as long as the test's pool is.
class OwnStream {
 public:
  explicit OwnStream(const Driver& driver) : driver_(driver) {
    driver.check(driver.stream_create(&handle_, 0), "cuStreamCreate");
  }
  ~OwnStream() { driver_.stream_destroy(handle_); }
  OwnStream(const OwnStream&) = delete;
  OwnStream& operator=(const OwnStream&) = delete;
  StreamHandle handle() const { return handle_; }

 private:
  const Driver& driver_;
  StreamHandle handle_ = nullptr;
};

// A pool's life on two streams, with work queued on every block.
void allocate_and_free(const Driver& driver) {
  const OwnStream other(driver);
  CudaPages pages(driver, 0);
  CudaOrder order(driver);
  trace::Recorder recorder(0);
  Pool pool(pages, {16 * kPage, "test"}, recorder, &order);
  std::vector<Block> blocks;
  const auto free_all = [&] {
    for (const Block& block : blocks) pool.free(block);
    blocks.clear();
  };
  try {
    for (int round = 0; round < 3; ++round) {
      const StreamHandle stream = round == 1 ? other.handle() : nullptr;
      for (const int64_t bytes : {int64_t{300}, 3 * kPage, 5 * kPage}) {
        blocks.push_back(pool.allocate({.bytes = bytes, .stream = order.number(stream)}));
        stand_in_fill(stream, blocks.back().data, 256, 1);
      }
      free_all();
    }
  } catch (...) {
    free_all();
    throw;
  }
}

TEST_F(CudaPagesTest, LeavesNothingBehindWhenAnyCallFails) {
  stand_in_fail_at(0);
  const int64_t before = stand_in_calls();
  allocate_and_free(driver_);
  const int64_t calls = stand_in_calls() - before;
  ASSERT_GT(calls, 20);
  int64_t failed = 0;
  for (int64_t n = 1; n <= calls; ++n) {
    stand_in_fail_at(n);
    try {
      allocate_and_free(driver_);
    } catch (const Error&) {
      ++failed;
    }
    stand_in_fail_at(0);
    const StandInCounts counts = stand_in_counts();
    ASSERT_EQ(counts.handles, 0) << "call " << n;
    ASSERT_EQ(counts.mappings, 0) << "call " << n;
    ASSERT_EQ(counts.ranges, 0) << "call " << n;
    ASSERT_EQ(counts.events, 0) << "call " << n;
    allocate_and_free(driver_);  // the next run works
  }
  EXPECT_GT(failed, calls / 2);
}

}  // namespace
}  // namespace plimsoll::cuda
