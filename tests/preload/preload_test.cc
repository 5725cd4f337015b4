// The preload library under a program that calls the CUDA runtime as PyTorch's allocator does, with stand-ins for the
// runtime and the driver behind it.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "plimsoll/base/bytes.h"
#include "preload/runtime_api.h"
#include "tests/device/stand_in/stand_in.h"

using plimsoll::kKiB;
using plimsoll::kMiB;
using plimsoll::cuda::StreamHandle;
using plimsoll::preload::PoolAccess;

extern "C" {
int cudaMalloc(void** pointer, size_t bytes);
int cudaFree(void* pointer);
int cudaMallocAsync(void** pointer, size_t bytes, StreamHandle stream);
int cudaFreeAsync(void* pointer, StreamHandle stream);
int cudaMemGetInfo(size_t* free, size_t* total);
int cudaDeviceGetDefaultMemPool(void** pool, int device);
int cudaMemPoolGetAttribute(void* pool, int attribute, void* value);
int cudaMemPoolSetAttribute(void* pool, int attribute, void* value);
int cudaMemPoolSetAccess(void* pool, const PoolAccess* access, size_t count);
int cudaMemPoolTrimTo(void* pool, size_t keep);
int cudaSetDevice(int device);
int cudaDeviceSynchronize();
int cudaStreamCreateWithFlags(StreamHandle* stream, unsigned flags);
int cudaStreamDestroy(StreamHandle stream);
int cudaStreamSynchronize(StreamHandle stream);
int cudaStreamBeginCapture(StreamHandle stream, int mode);
int cudaStreamEndCapture(StreamHandle stream, void** graph);
int cudaIpcGetMemHandle(void* handle, void* pointer);
int64_t stand_in_passed();
}

namespace {

constexpr size_t kBudget = 64 * kMiB;
constexpr size_t kContext = 6 * kMiB;
constexpr size_t kOthers = 10 * kMiB;
constexpr int kSuccess = 0;
constexpr int kOutOfMemory = 2;

// The library reads its settings once, at the first call: one card for all tests.
class Card : public testing::Environment {
 public:
  void SetUp() override {
    const StandInSettings settings{.devices = 2,
                                   .card_bytes = 256 * kMiB,
                                   .granularity = 64 * kKiB,
                                   .context_bytes = kContext,
                                   .others_bytes = kOthers};
    stand_in_reset(&settings);
    setenv("PLIMSOLL_BUDGET", "64MiB", 1);
    setenv("PLIMSOLL_DEVICE_USED", "00000000:1b:00.0=10485760,00000000:1b:00.1=10485760", 1);
  }
};
const auto* const kCard = testing::AddGlobalTestEnvironment(new Card);

uint64_t attribute(int which, int device = 0) {
  void* pool = nullptr;
  cudaDeviceGetDefaultMemPool(&pool, device);
  uint64_t value = 0;
  EXPECT_EQ(cudaMemPoolGetAttribute(pool, which, &value), kSuccess);
  return value;
}

void trim() {
  void* pool = nullptr;
  cudaDeviceGetDefaultMemPool(&pool, 0);
  EXPECT_EQ(cudaMemPoolTrimTo(pool, 0), kSuccess);
}

class PreloadTest : public testing::Test {
 protected:
  PreloadTest() {
    cudaSetDevice(0);
    for (StreamHandle& stream : streams_) cudaStreamCreateWithFlags(&stream, 1);
    before_ = stand_in_counts();
    passed_ = stand_in_passed();
  }
  ~PreloadTest() override {
    EXPECT_EQ(attribute(plimsoll::preload::kUsedCurrent), 0u) << "a test left blocks behind";
    cudaDeviceSynchronize();
    for (const StreamHandle stream : streams_) cudaStreamDestroy(stream);
    trim();
    EXPECT_EQ(attribute(plimsoll::preload::kReservedCurrent), 0u);
    const StandInCounts counts = stand_in_counts();
    EXPECT_EQ(counts.faults, before_.faults);
    EXPECT_EQ(counts.mismatches, before_.mismatches);
  }

  StreamHandle streams_[3] = {};
  StandInCounts before_;
  int64_t passed_ = 0;
};

TEST_F(PreloadTest, ServesTensorsFromThePool) {
  void* tensor = nullptr;
  ASSERT_EQ(cudaMallocAsync(&tensor, 3 * kMiB, nullptr), kSuccess);
  EXPECT_EQ(stand_in_passed(), passed_) << "the runtime saw it";
  EXPECT_EQ(attribute(plimsoll::preload::kUsedCurrent), 3u * kMiB);
  EXPECT_GE(attribute(plimsoll::preload::kReservedCurrent), 3u * kMiB);
  static_cast<char*>(tensor)[3 * kMiB - 1] = 1;
  EXPECT_EQ(cudaFreeAsync(tensor, nullptr), kSuccess);
  EXPECT_EQ(attribute(plimsoll::preload::kUsedCurrent), 0u);
  EXPECT_GE(attribute(plimsoll::preload::kUsedHigh), 3u * kMiB);
}

TEST_F(PreloadTest, ResetsEachPeakByItself) {
  void* pool = nullptr;
  cudaDeviceGetDefaultMemPool(&pool, 0);
  void* tensor = nullptr;
  ASSERT_EQ(cudaMallocAsync(&tensor, 8 * kMiB, nullptr), kSuccess);
  cudaFreeAsync(tensor, nullptr);
  trim();
  uint64_t zero = 0;
  EXPECT_EQ(cudaMemPoolSetAttribute(pool, plimsoll::preload::kUsedHigh, &zero), kSuccess);
  EXPECT_EQ(attribute(plimsoll::preload::kUsedHigh), 0u);
  EXPECT_GE(attribute(plimsoll::preload::kReservedHigh), 8u * kMiB);
  EXPECT_EQ(cudaMemPoolSetAttribute(pool, plimsoll::preload::kReservedHigh, &zero), kSuccess);
  EXPECT_EQ(attribute(plimsoll::preload::kReservedHigh), 0u);
}

TEST_F(PreloadTest, ShowsTheBudgetAsTheCard) {
  size_t free = 0;
  size_t total = 0;
  ASSERT_EQ(cudaMemGetInfo(&free, &total), kSuccess);
  EXPECT_EQ(total, kBudget);
  EXPECT_EQ(free, kBudget - kContext);
  void* tensor = nullptr;
  ASSERT_EQ(cudaMallocAsync(&tensor, 5 * kMiB, nullptr), kSuccess);
  cudaMemGetInfo(&free, &total);
  EXPECT_EQ(free, kBudget - kContext - 5 * kMiB);
  EXPECT_LE(free + attribute(plimsoll::preload::kUsedCurrent), total) << "PyTorch asserts this";
  cudaFreeAsync(tensor, nullptr);
}

TEST_F(PreloadTest, RefusesWhatTheBudgetLessTheContextDoesNotHold) {
  void* fits = nullptr;
  void* over = nullptr;
  ASSERT_EQ(cudaMallocAsync(&fits, kBudget - kContext, nullptr), kSuccess);
  EXPECT_EQ(cudaMallocAsync(&over, 64 * kKiB, nullptr), kOutOfMemory);
  cudaFreeAsync(fits, nullptr);
  EXPECT_EQ(cudaMallocAsync(&over, kBudget - kContext + 64 * kKiB, nullptr), kOutOfMemory);
  EXPECT_EQ(cudaMallocAsync(&over, SIZE_MAX - 1, nullptr), kOutOfMemory);
  ASSERT_EQ(cudaMallocAsync(&fits, 10 * kMiB, nullptr), kSuccess) << "the next request works";
  cudaFreeAsync(fits, nullptr);
}

TEST_F(PreloadTest, TakesPlainMallocAndFreeToo) {
  void* memory = nullptr;
  ASSERT_EQ(cudaMalloc(&memory, kMiB), kSuccess);
  EXPECT_EQ(attribute(plimsoll::preload::kUsedCurrent), static_cast<uint64_t>(kMiB));
  stand_in_fill(streams_[0], memory, kMiB, 5);
  stand_in_check(streams_[0], memory, kMiB, 5);
  EXPECT_EQ(cudaFree(memory), kSuccess) << "waits for the device, as the runtime's does";
  void* again = nullptr;
  ASSERT_EQ(cudaMallocAsync(&again, kMiB, streams_[1]), kSuccess);
  stand_in_fill(streams_[1], again, kMiB, 6);
  cudaFreeAsync(again, streams_[1]);
  EXPECT_EQ(cudaFree(nullptr), kSuccess);
}

TEST_F(PreloadTest, PassesOnWhatIsNotItsOwn) {
  StreamHandle capturing = streams_[0];
  ASSERT_EQ(cudaStreamBeginCapture(capturing, 0), kSuccess);
  void* graphed = nullptr;
  ASSERT_EQ(cudaMallocAsync(&graphed, kMiB, capturing), kSuccess);
  EXPECT_EQ(stand_in_passed(), passed_ + 1) << "memory of a graph is the runtime's";
  void* other = nullptr;
  ASSERT_EQ(cudaMallocAsync(&other, 4 * kMiB, streams_[1]), kSuccess) << "other streams go on, and may map";
  EXPECT_EQ(stand_in_passed(), passed_ + 1);
  EXPECT_EQ(cudaFreeAsync(graphed, capturing), kSuccess);
  EXPECT_EQ(stand_in_passed(), passed_);
  void* graph = nullptr;
  ASSERT_EQ(cudaStreamEndCapture(capturing, &graph), kSuccess);
  cudaFreeAsync(other, streams_[1]);
}

TEST_F(PreloadTest, PutsOffFreesOnAStreamThatCaptures) {
  void* tensor = nullptr;
  ASSERT_EQ(cudaMallocAsync(&tensor, 2 * kMiB, streams_[0]), kSuccess);
  ASSERT_EQ(cudaStreamBeginCapture(streams_[0], 0), kSuccess);
  EXPECT_EQ(cudaFreeAsync(tensor, streams_[0]), kSuccess);
  EXPECT_EQ(attribute(plimsoll::preload::kUsedCurrent), 2u * kMiB) << "the graph may use it";
  void* graph = nullptr;
  ASSERT_EQ(cudaStreamEndCapture(streams_[0], &graph), kSuccess);
  EXPECT_EQ(attribute(plimsoll::preload::kUsedCurrent), 0u);
}

TEST_F(PreloadTest, TakesMemoryOfAStreamThatCapturesBehindTheWorkBeforeIt) {
  void* tensor = nullptr;
  ASSERT_EQ(cudaMallocAsync(&tensor, 50 * kMiB, streams_[0]), kSuccess);
  stand_in_fill(streams_[0], tensor, 50 * kMiB, 1);
  stand_in_check(streams_[0], tensor, 50 * kMiB, 1);
  cudaFreeAsync(tensor, streams_[0]);
  ASSERT_EQ(cudaStreamBeginCapture(streams_[0], 0), kSuccess);
  void* other = nullptr;
  ASSERT_EQ(cudaMallocAsync(&other, 50 * kMiB, streams_[1]), kSuccess) << "only by taking over the same pages";
  stand_in_fill(streams_[1], other, 50 * kMiB, 2);
  void* graph = nullptr;
  ASSERT_EQ(cudaStreamEndCapture(streams_[0], &graph), kSuccess);
  cudaFreeAsync(other, streams_[1]);
}

TEST_F(PreloadTest, KeepsTheOrderOfAStreamThatIsDestroyed) {
  StreamHandle passing = nullptr;
  cudaStreamCreateWithFlags(&passing, 1);
  void* tensor = nullptr;
  ASSERT_EQ(cudaMallocAsync(&tensor, 50 * kMiB, passing), kSuccess);
  stand_in_fill(passing, tensor, 50 * kMiB, 3);
  stand_in_check(passing, tensor, 50 * kMiB, 3);
  cudaFreeAsync(tensor, passing);
  EXPECT_EQ(cudaStreamDestroy(passing), kSuccess);
  void* other = nullptr;
  ASSERT_EQ(cudaMallocAsync(&other, 50 * kMiB, streams_[1]), kSuccess);
  stand_in_fill(streams_[1], other, 50 * kMiB, 4);
  cudaFreeAsync(other, streams_[1]);
}

TEST_F(PreloadTest, SharesWithAPeer) {
  void* pool = nullptr;
  cudaDeviceGetDefaultMemPool(&pool, 0);
  void* tensor = nullptr;
  ASSERT_EQ(cudaMallocAsync(&tensor, kMiB, nullptr), kSuccess);
  const PoolAccess access{.location_type = 1, .location_id = 1, .flags = 3};
  EXPECT_EQ(cudaMemPoolSetAccess(pool, &access, 1), kSuccess);
  cudaFreeAsync(tensor, nullptr);
}

TEST_F(PreloadTest, HasAPoolForEachDevice) {
  cudaSetDevice(1);
  void* one = nullptr;
  ASSERT_EQ(cudaMallocAsync(&one, 40 * kMiB, nullptr), kSuccess);
  cudaSetDevice(0);
  void* zero = nullptr;
  ASSERT_EQ(cudaMallocAsync(&zero, 40 * kMiB, nullptr), kSuccess) << "each has the budget";
  EXPECT_EQ(attribute(plimsoll::preload::kUsedCurrent, 0), 40u * kMiB);
  EXPECT_EQ(attribute(plimsoll::preload::kUsedCurrent, 1), 40u * kMiB);
  EXPECT_EQ(cudaFreeAsync(one, nullptr), kSuccess) << "freed while the other device is current";
  EXPECT_EQ(attribute(plimsoll::preload::kUsedCurrent, 1), 0u);
  cudaFreeAsync(zero, nullptr);
}

TEST_F(PreloadTest, LeavesAForkedChildAlone) {
  void* tensor = nullptr;
  ASSERT_EQ(cudaMallocAsync(&tensor, kMiB, nullptr), kSuccess);
  const pid_t child = fork();
  if (child == 0) {
    const int64_t passed = stand_in_passed();
    void* other = nullptr;
    const bool fine = cudaFreeAsync(tensor, nullptr) == kSuccess &&
                      cudaMallocAsync(&other, kMiB, nullptr) == kSuccess && stand_in_passed() == passed + 1;
    _exit(fine ? 0 : 1);
  }
  int status = -1;
  waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
  EXPECT_EQ(cudaFreeAsync(tensor, nullptr), kSuccess);
}

TEST_F(PreloadTest, SurvivesFailureOfAnyDriverCall) {
  void* first = nullptr;
  ASSERT_EQ(cudaMallocAsync(&first, kMiB, nullptr), kSuccess);
  cudaFreeAsync(first, nullptr);
  for (int64_t n = 1; n < 60; ++n) {
    trim();
    stand_in_fail_at(n);
    void* blocks[3] = {};
    int results[3] = {};
    for (int i = 0; i < 3; ++i) results[i] = cudaMallocAsync(&blocks[i], (i + 1) * 128 * kKiB, streams_[i]);
    stand_in_fail_at(0);
    for (int i = 0; i < 3; ++i) {
      if (results[i] == kSuccess) {
        EXPECT_EQ(cudaFreeAsync(blocks[i], streams_[i]), kSuccess);
      }
    }
  }
  void* last = nullptr;
  EXPECT_EQ(cudaMallocAsync(&last, 40 * kMiB, nullptr), kSuccess);
  cudaFreeAsync(last, nullptr);
}

// Threads that use each other's streams, as autograd's do; every block is checked on its stream before it goes.
TEST_F(PreloadTest, KeepsThreadsAndStreamsApart) {
  const auto work = [&](uint64_t seed) {
    cudaSetDevice(0);
    std::mt19937_64 random(seed);
    struct Live {
      void* data;
      size_t bytes;
      StreamHandle stream;
      uint64_t value;
    };
    std::vector<Live> live;
    const auto free_one = [&] {
      std::swap(live[random() % live.size()], live.back());
      stand_in_check(live.back().stream, live.back().data, live.back().bytes, live.back().value);
      EXPECT_EQ(cudaFreeAsync(live.back().data, live.back().stream), kSuccess);
      live.pop_back();
    };
    for (int i = 0; i < 1500; ++i) {
      if (live.size() < 10 && random() % 2 == 0) {
        const size_t bytes = 8 * (1 + random() % (random() % 4 == 0 ? 256 * 1024 : 1024));
        Live made{nullptr, bytes, streams_[random() % 3], random()};
        if (cudaMallocAsync(&made.data, bytes, made.stream) != kSuccess) continue;
        stand_in_fill(made.stream, made.data, bytes, made.value);
        live.push_back(made);
      } else if (!live.empty()) {
        free_one();
      }
    }
    while (!live.empty()) free_one();
  };
  std::vector<std::thread> threads;
  for (uint64_t seed = 0; seed < 4; ++seed) threads.emplace_back(work, seed);
  for (std::thread& thread : threads) thread.join();
  cudaDeviceSynchronize();
}

TEST(PreloadLibrary, ShowsNothingButTheFunctionsItReplaces) {
  const std::string library =
      std::filesystem::path(PLIMSOLL_BINARY).parent_path() / "../preload/libplimsoll_preload.so";
  std::FILE* const pipe = popen(("nm -D --defined-only " + library + " 2>/dev/null").c_str(), "r");
  char line[4096];
  int symbols = 0;
  while (std::fgets(line, sizeof line, pipe) != nullptr) {
    const std::string text = line;
    const std::string name = text.substr(text.rfind(' ') + 1);
    EXPECT_EQ(name.substr(0, 4), "cuda") << text;
    ++symbols;
  }
  if (pclose(pipe) != 0) GTEST_SKIP() << "no nm";
  EXPECT_EQ(symbols, 14);
}

TEST_F(PreloadTest, IsFastWhenABlockIsCached) {
  void* tensor = nullptr;
  ASSERT_EQ(cudaMallocAsync(&tensor, kMiB, nullptr), kSuccess);
  cudaFreeAsync(tensor, nullptr);
  constexpr int kRounds = 100'000;
  const auto start = std::chrono::steady_clock::now();
  for (int i = 0; i < kRounds; ++i) {
    cudaMallocAsync(&tensor, kMiB, nullptr);
    cudaFreeAsync(tensor, nullptr);
  }
  const std::chrono::duration<double, std::nano> spent = std::chrono::steady_clock::now() - start;
  RecordProperty("ns_per_pair", std::to_string(spent.count() / kRounds));
  std::printf("  cached cudaMallocAsync and cudaFreeAsync: %.0f ns\n", spent.count() / kRounds);
  EXPECT_LT(spent.count() / kRounds, 20'000) << "something slow is on the way of every call";
}

}  // namespace
