// Memory in figures. First the price of one allocate and free of a size that was freed a moment ago, on one thread,
// beside other allocators in the same run. Then recorded training runs against the pool and against PyTorch's rules,
// beside what PyTorch measured on the card.
#include <dlfcn.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "plimsoll/base/bytes.h"
#include "plimsoll/memory/file_pages.h"
#include "plimsoll/memory/pool.h"
#include "plimsoll/memory/replay/policies.h"
#include "plimsoll/trace/file.h"

namespace plimsoll {
namespace {

// ---- one allocate and free

using Pair = std::function<void(int64_t bytes, int count)>;  // allocates and frees `bytes`, `count` times

double median(std::vector<double> values) {
  std::nth_element(values.begin(), values.begin() + static_cast<int64_t>(values.size() / 2), values.end());
  return values[values.size() / 2];
}

// Nanoseconds of one pair: the median over batches, each long enough for the clock.
double median_ns(const Pair& pair, int64_t bytes) {
  constexpr int kBatch = 1000;
  constexpr int kBatches = 301;
  pair(bytes, kBatch);  // warms up
  std::vector<double> ns;
  for (int i = 0; i < kBatches; ++i) {
    const auto start = std::chrono::steady_clock::now();
    pair(bytes, kBatch);
    const std::chrono::duration<double, std::nano> spent = std::chrono::steady_clock::now() - start;
    ns.push_back(spent.count() / kBatch);
  }
  return median(std::move(ns));
}

Pair pair_of(Pool& pool) {
  return [&pool](int64_t bytes, int count) {
    for (int i = 0; i < count; ++i) pool.free(pool.allocate(bytes));
  };
}

// malloc and free of a library, by their names; nothing when it is not installed. Loaded apart from the process's own.
Pair pair_of(const char* library, const char* malloc_name, const char* free_name) {
  void* const handle = dlopen(library, RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) return nullptr;
  const auto allocate = reinterpret_cast<void* (*)(size_t)>(dlsym(handle, malloc_name));
  const auto release = reinterpret_cast<void (*)(void*)>(dlsym(handle, free_name));
  if (allocate == nullptr || release == nullptr) return nullptr;
  return [allocate, release](int64_t bytes, int count) {
    for (int i = 0; i < count; ++i) release(allocate(static_cast<size_t>(bytes)));
  };
}

// jemalloc wants more thread-local storage than a program that loads it late has left, unless told at its start.
void make_room_for_peers(char** argv) {
  if (std::getenv("GLIBC_TUNABLES") != nullptr) return;
  setenv("GLIBC_TUNABLES", "glibc.rtld.optional_static_tls=65536", 1);
  execv("/proc/self/exe", argv);
}

struct Row {
  const char* name;
  Pair pair;
};

void print_pairs() {
  constexpr int64_t kSizes[] = {256, 4 * kKiB, 64 * kKiB, kMiB, 64 * kMiB};
  FilePages pages = FilePages::host(host_page_bytes(kGiB));
  trace::Recorder off(0);
  trace::Recorder on(1 << 20);
  Pool plain(pages, {kGiB, "the benchmark"}, off);
  FilePages more_pages = FilePages::host(host_page_bytes(kGiB));
  Pool recorded(more_pages, {kGiB, "the benchmark"}, on);
  const Pair mimalloc = pair_of("libmimalloc.so.2", "mi_malloc", "mi_free");
  const Row rows[] = {{"pool", pair_of(plain)},
                      {"pool, recording", pair_of(recorded)},
                      {"glibc malloc", pair_of("libc.so.6", "malloc", "free")},
                      {"jemalloc", pair_of("libjemalloc.so.2", "malloc", "free")},
                      {"mimalloc", mimalloc ? mimalloc : pair_of("libmimalloc.so.3", "mi_malloc", "mi_free")}};
  fmt::print("allocate + free of a size freed a moment ago: median ns, one thread, memory not touched\n");
  fmt::print("(goals: pool 60, recording 120; a pool's memory is committed, malloc's is not before it is touched)\n\n");
  fmt::print("{:<16}", "");
  for (const int64_t bytes : kSizes) fmt::print("{:>12}", format_bytes(bytes));
  for (const Row& row : rows) {
    fmt::print("\n{:<16}", row.name);
    if (!row.pair) fmt::print("  not installed");
    for (const int64_t bytes : kSizes) {
      if (row.pair) fmt::print("{:>12.1f}", median_ns(row.pair, bytes));
    }
  }
  fmt::print("\n\n");
}

// ---- recorded training runs

// The fastest of a few runs, so that a busy machine does not matter; everything but the time is the same in each.
template <typename MakePolicy>
replay::ReplayResult replay_best(const trace::Trace& trace, MakePolicy make_policy) {
  constexpr int kRuns = 5;
  replay::ReplayResult best;
  for (int run = 0; run < kRuns; ++run) {
    const auto policy = make_policy();
    const replay::ReplayResult result = replay::replay(trace, *policy);
    if (run == 0 || result.ns_per_event < best.ns_per_event) best = result;
  }
  return best;
}

double ratio(const nlohmann::json& measured, const char* reserved, const char* allocated) {
  return measured.at(reserved).get<double>() / measured.at(allocated).get<double>();
}

void print_trace(const std::filesystem::path& folder, const nlohmann::json& measured) {
  const auto name = measured.at("case").get<std::string>();
  const trace::Trace trace = trace::read(folder / (name + ".csv.gz"));
  const replay::Device device;
  const auto torch = replay_best(trace, [&] { return replay::make_policy("torch", device); });
  const auto pool = replay_best(trace, [&] { return replay::make_policy("pool", device); });
  fmt::print("{:<18}{:>12}{:>10.3f}{:>12.3f}{:>10.3f}{:>10.4f}{:>12.2f}{:>10.0f}{:>10.0f}\n", name,
             format_bytes(pool.live_peak_bytes), ratio(measured, "peak_reserved", "peak_allocated"),
             ratio(measured, "expandable_peak_reserved", "expandable_peak_allocated"), torch.ratio(), pool.ratio(),
             pool.remapping_per_1000_events(), torch.ns_per_event, pool.ns_per_event);
}

void print_traces(const std::filesystem::path& folder) {
  std::ifstream file(folder / "measured.json");
  if (!file) {
    fmt::print("recorded training runs: no {}; name the folder of the traces as the first argument\n",
               (folder / "measured.json").string());
    return;
  }
  fmt::print("recorded training runs, 2 MiB pages: reserved peak / live peak, and the time of one event\n\n");
  fmt::print("{:<18}{:>12}{:>10}{:>12}{:>10}{:>10}{:>12}{:>10}{:>10}\n", "", "", "torch", "expandable", "torch", "pool",
             "pool remaps", "torch", "pool");
  fmt::print("{:<18}{:>12}{:>10}{:>12}{:>10}{:>10}{:>12}{:>10}{:>10}\n", "", "live peak", "measured", "measured",
             "replayed", "replayed", "/1000 event", "ns/event", "ns/event");
  for (const nlohmann::json& measured : nlohmann::json::parse(file)) print_trace(folder, measured);
}

}  // namespace
}  // namespace plimsoll

int main(int argc, char** argv) {
  plimsoll::make_room_for_peers(argv);
  plimsoll::print_pairs();
  plimsoll::print_traces(argc > 1 ? argv[1] : PLIMSOLL_SOURCE_DIR "/../shared/data/traces");
}
