// What a card does with our memory: versions, the cost of the driver's virtual memory calls, the pool's cached
// allocate and free, and recorded traces replayed in memory that is really mapped. Prints a table, or JSON.
//
//   gpu_check [--json FILE] [--device N] [--touch] [--runtime libcudart.so] [TRACE.csv.gz ...]
//
// --runtime measures cudaMallocAsync and cudaFreeAsync of that library, or of the preload library before it, instead.
#include <dlfcn.h>
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <numeric>
#include <string>
#include <vector>

#include "plimsoll/base/bytes.h"
#include "plimsoll/base/file.h"
#include "plimsoll/device/cuda/order.h"
#include "plimsoll/device/cuda/pages.h"
#include "plimsoll/memory/pool.h"
#include "plimsoll/trace/file.h"
#include "plimsoll/trace/live_set.h"

namespace plimsoll {
namespace {

struct Options {
  int device = 0;
  bool touch = false;
  std::string json;
  std::string runtime;
  std::string driver = "libcuda.so.1";
  std::vector<std::string> traces;
};

Options parse(int argc, char** argv) {
  Options options;
  for (int i = 1; i < argc; ++i) {
    const std::string argument = argv[i];
    const auto value = [&]() -> std::string {
      if (++i == argc) throw ArgumentError(argument + " needs a value");
      return argv[i];
    };
    if (argument == "--json") {
      options.json = value();
    } else if (argument == "--device") {
      options.device = std::stoi(value());
    } else if (argument == "--driver") {
      options.driver = value();
    } else if (argument == "--runtime") {
      options.runtime = value();
    } else if (argument == "--touch") {
      options.touch = true;
    } else {
      options.traces.push_back(argument);
    }
  }
  return options;
}

class Results {
 public:
  void add(const std::string& name, double value, const std::string& unit) {
    fmt::print("  {:<46}{:>14.3f} {}\n", name, value, unit);
    std::fflush(stdout);
    json_ += fmt::format("{}\n  \"{} ({})\": {}", json_.empty() ? "" : ",", name, unit, value);
  }
  std::string json() const { return fmt::format("{{{}\n}}\n", json_); }

 private:
  std::string json_;
};

using Clock = std::chrono::steady_clock;
double us_since(Clock::time_point start) {
  return std::chrono::duration<double, std::micro>(Clock::now() - start).count();
}

template <typename Work>
double us_of(Work work) {
  const auto start = Clock::now();
  work();
  return us_since(start);
}

// The driver's calls, per page, for runs of so many pages.
void measure_pages(const cuda::Driver& driver, int device, Results& results) {
  cuda::CudaPages pages(driver, device);
  results.add("page", static_cast<double>(pages.page_bytes()) / static_cast<double>(kMiB), "MiB");
  for (const size_t count : {size_t{1}, size_t{16}, size_t{256}, size_t{2048}}) {
    std::vector<PageId> ids(count);
    const auto bytes = static_cast<int64_t>(count) * pages.page_bytes();
    std::byte* const range = pages.reserve(bytes);
    double create = 0;
    double map = 0;
    double unmap = 0;
    double destroy = 0;
    const int rounds = count > 1000 ? 2 : 5;
    for (int round = 0; round < rounds; ++round) {
      create += us_of([&] { pages.create(ids); });
      map += us_of([&] { pages.map(range, ids); });
      unmap += us_of([&] { pages.unmap(range, static_cast<int64_t>(count)); });
      destroy += us_of([&] { pages.destroy(ids); });
    }
    const double each = static_cast<double>(count) * rounds;
    results.add(fmt::format("create, per page of {}", count), create / each, "us");
    results.add(fmt::format("map and set access, per page of {}", count), map / each, "us");
    results.add(fmt::format("unmap, per page of {}", count), unmap / each, "us");
    results.add(fmt::format("destroy, per page of {}", count), destroy / each, "us");
    pages.release(range, bytes);
  }
}

void measure_calls(const cuda::Driver& driver, Results& results) {
  constexpr int kRounds = 20'000;
  const auto per_call = [&](const std::string& name, auto call) {
    call();
    results.add(name, 1000 * us_of([&] {
                        for (int i = 0; i < kRounds; ++i) call();
                      }) / kRounds,
                "ns");
  };
  int number = 0;
  size_t free = 0;
  size_t total = 0;
  cuda::EventHandle event = nullptr;
  driver.check(driver.event_create(&event, cuda::kEventDisableTiming), "cuEventCreate");
  per_call("cuStreamIsCapturing", [&] { driver.stream_is_capturing(nullptr, &number); });
  per_call("cuCtxGetDevice", [&] { driver.ctx_get_device(&number); });
  per_call("cuThreadExchangeStreamCaptureMode", [&] { const cuda::RelaxedCapture relaxed(driver); });
  per_call("cuEventRecord and cuEventQuery", [&] {
    driver.event_record(event, nullptr);
    driver.event_query(event);
  });
  per_call("cuMemGetInfo", [&] { driver.mem_get_info(&free, &total); });
  results.add("card", static_cast<double>(total) / static_cast<double>(kGiB), "GiB");
  results.add("free with a context", static_cast<double>(free) / static_cast<double>(kGiB), "GiB");
  driver.event_destroy(event);
}

void measure_pool(const cuda::Driver& driver, int device, Results& results) {
  constexpr int kRounds = 200'000;
  cuda::CudaPages pages(driver, device);
  cuda::CudaOrder order(driver);
  trace::Recorder recorder(0);
  Pool pool(pages, {4 * kGiB, "gpu_check"}, recorder, &order);
  for (const int64_t bytes : {int64_t{512}, 64 * kKiB, 3 * kMiB, 100 * kMiB}) {
    pool.free(pool.allocate(bytes));
    const double us = us_of([&] {
      for (int i = 0; i < kRounds; ++i) pool.free(pool.allocate(bytes));
    });
    results.add(fmt::format("pool: cached allocate and free of {}", format_bytes(bytes)), 1000 * us / kRounds, "ns");
  }
}

uint32_t word_of(int64_t id) {
  return static_cast<uint32_t>(static_cast<uint64_t>(id) * 0x9E3779B97F4A7C15u >> 32) | 1;
}

// A trace in memory that is really mapped. With `touch`, the ends of every block are written when it is allocated and
// compared before it is freed, on the card: two blocks that share memory are found.
class RealReplay {
 public:
  RealReplay(const cuda::Driver& driver, int device, bool touch)
      : driver_(driver), pages_(driver, device), order_(driver), touch_(touch) {}

  void run(const std::string& path, Results& results) {
    const trace::Trace trace = trace::read(path);
    const int64_t live_peak = trace::live_peak_bytes(trace);
    const std::string name = path.substr(path.find_last_of('/') + 1);
    Pool pool(pages_, {live_peak + live_peak / 20 + 64 * kMiB, "gpu_check"}, recorder_, &order_);
    std::vector<Block> blocks;
    trace::LiveSet live;
    int64_t wrong = 0;
    double slowest = 0;
    const auto start = Clock::now();
    for (const trace::Event& event : trace.events) {
      const auto before = Clock::now();
      if (event.kind == trace::EventKind::alloc) {
        const uint32_t slot = live.add(event.id);
        if (slot >= blocks.size()) blocks.resize(slot + 1);
        blocks[slot] = pool.allocate(event.bytes);
        slowest = std::max(slowest, us_since(before));
        if (touch_) write_ends(blocks[slot], word_of(event.id));
      } else {
        const uint32_t slot = live.find(event.id);
        if (touch_) wrong += wrong_ends(blocks[slot], word_of(event.id));
        pool.free(blocks[slot]);
        live.remove(event.id);
        blocks[slot] = {};
      }
    }
    const double us = us_since(start);
    const PoolStats stats = pool.stats();
    results.add(name + ": reserved / live",
                static_cast<double>(stats.reserved_peak_bytes) / static_cast<double>(live_peak), "x");
    if (touch_) {
      results.add(name + ": words overwritten by another block", static_cast<double>(wrong), "");
    } else {
      results.add(name + ": live peak", static_cast<double>(live_peak) / static_cast<double>(kGiB), "GiB");
      results.add(name + ": pages remapped", static_cast<double>(stats.pages_remapped), "");
      results.add(name + ": allocations that remapped", static_cast<double>(stats.remapping_allocations), "");
      results.add(name + ": all events", us / 1000, "ms");
      results.add(name + ": per event", 1000 * us / static_cast<double>(trace.events.size()), "ns");
      results.add(name + ": slowest allocation", slowest / 1000, "ms");
    }
    for (const Block& block : blocks) pool.free(block);
  }

 private:
  static cuda::DevicePointer address(const Block& block) { return reinterpret_cast<cuda::DevicePointer>(block.data); }
  void write_ends(const Block& block, uint32_t word) {
    driver_.check(driver_.memset_d32_async(address(block), word, 64, nullptr), "cuMemsetD32Async");
    const auto end = address(block) + static_cast<cuda::DevicePointer>(block.bytes - 256);
    driver_.check(driver_.memset_d32_async(end, word, 64, nullptr), "cuMemsetD32Async");
  }
  int64_t wrong_ends(const Block& block, uint32_t word) {
    uint32_t words[128] = {};
    const auto end = address(block) + static_cast<cuda::DevicePointer>(block.bytes - 256);
    driver_.check(driver_.memcpy_dtoh(words, address(block), 256), "cuMemcpyDtoH");
    driver_.check(driver_.memcpy_dtoh(words + 64, end, 256), "cuMemcpyDtoH");
    return std::count_if(std::begin(words), std::end(words), [&](uint32_t found) { return found != word; });
  }

  const cuda::Driver& driver_;
  cuda::CudaPages pages_;
  cuda::CudaOrder order_;
  trace::Recorder recorder_{0};
  bool touch_;
};

template <typename Function>
Function* symbol(const char* name) {
  return reinterpret_cast<Function*>(dlsym(RTLD_DEFAULT, name));
}

void measure_runtime(const std::string& library, Results& results) {
  constexpr int kRounds = 200'000;
  if (dlopen(library.c_str(), RTLD_NOW | RTLD_GLOBAL) == nullptr) throw UnsupportedError(dlerror());
  auto* const allocate = symbol<int(void**, size_t, cuda::StreamHandle)>("cudaMallocAsync");
  auto* const free = symbol<int(void*, cuda::StreamHandle)>("cudaFreeAsync");
  for (const int64_t bytes : {int64_t{512}, 3 * kMiB, 100 * kMiB}) {
    void* pointer = nullptr;
    const auto pair = [&] {
      if (allocate(&pointer, static_cast<size_t>(bytes), nullptr) != 0) throw SystemError("cudaMallocAsync failed");
      free(pointer, nullptr);
    };
    pair();
    const double us = us_of([&] {
      for (int i = 0; i < kRounds; ++i) pair();
    });
    results.add(fmt::format("cudaMallocAsync and cudaFreeAsync of {}", format_bytes(bytes)), 1000 * us / kRounds, "ns");
  }
}

void run(const Options& options) {
  const cuda::Driver driver = cuda::Driver::load(options.driver);
  fmt::print("driver {}, device {}: {}\n", driver.version(), options.device, driver.device_name(options.device));
  const cuda::CurrentDevice current(driver, options.device);
  Results results;
  if (!options.runtime.empty()) return measure_runtime(options.runtime, results);
  measure_calls(driver, results);
  measure_pages(driver, options.device, results);
  measure_pool(driver, options.device, results);
  for (const std::string& path : options.traces) {
    RealReplay(driver, options.device, false).run(path, results);
    if (options.touch) RealReplay(driver, options.device, true).run(path, results);
  }
  if (!options.json.empty()) write_file(options.json, results.json());
}

}  // namespace
}  // namespace plimsoll

int main(int argc, char** argv) {
  try {
    plimsoll::run(plimsoll::parse(argc, argv));
    return 0;
  } catch (const std::exception& error) {
    fmt::print(stderr, "gpu_check: {}\n", error.what());
    return 2;
  }
}
