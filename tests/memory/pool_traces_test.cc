// Recorded training runs: almost nothing is held beyond what is alive, and a step that repeats maps nothing anew.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <map>

#include "plimsoll/base/bytes.h"
#include "plimsoll/memory/pool.h"
#include "plimsoll/trace/file.h"
#include "tests/memory/failing_pages.h"

namespace plimsoll {
namespace {

using trace::EventKind;
using trace::Trace;

const std::filesystem::path kOwnTraces = PLIMSOLL_SOURCE_DIR "/tests/data/traces";
const std::filesystem::path kSharedTraces = PLIMSOLL_SOURCE_DIR "/../shared/data/traces";

std::vector<int64_t> requests_of(const Trace& trace) {
  std::vector<int64_t> requests;
  for (const trace::Event& event : trace.events) {
    if (event.kind == EventKind::alloc) requests.push_back(event.bytes);
  }
  return requests;
}

// How many requests one step has: the last third of the run repeats with this period. 0 when it does not repeat.
size_t step_length(const std::vector<int64_t>& requests) {
  const size_t count = requests.size();
  const auto tail = requests.end() - static_cast<int64_t>(count / 3);
  for (size_t period = 1; period < count / 3; ++period) {
    if (std::equal(tail, requests.end(), tail - static_cast<int64_t>(period))) return period;
  }
  return 0;
}

struct Run {
  PoolStats stats;
  std::vector<size_t> remapping_requests;  // by number, from 0
};

Run run(const Trace& trace) {
  SimulatedPages pages(2 * kMiB, kTiB);
  trace::Recorder recorder(0);
  Pool pool(pages, {kTiB / 2, "test"}, recorder);
  Run result;
  size_t requests = 0;
  std::map<int64_t, Block> live;
  for (const trace::Event& event : trace.events) {
    if (event.kind == EventKind::free) {
      pool.free(live.at(event.id));
      live.erase(event.id);
      continue;
    }
    const int64_t before = pool.stats().remapping_allocations;
    live[event.id] = pool.allocate({.bytes = event.bytes, .stream = event.stream});
    if (pool.stats().remapping_allocations > before) result.remapping_requests.push_back(requests);
    ++requests;
  }
  result.stats = pool.stats();
  for (const auto& entry : live) pool.free(entry.second);
  return result;
}

void expect_no_remaps_after_the_second_step(const Trace& trace, const Run& result) {
  const std::vector<int64_t> requests = requests_of(trace);
  const size_t step = step_length(requests);
  ASSERT_GT(step, 0u) << "the run does not repeat";
  // The runs have four steps: the last two are the third and the fourth.
  for (const size_t request : result.remapping_requests) {
    EXPECT_LT(request, requests.size() - 2 * step) << "of " << requests.size();
  }
}

void expect_little_waste(const std::filesystem::path& folder, const std::string& name, bool repeats) {
  SCOPED_TRACE(name);
  const Trace trace = trace::read(folder / (name + ".csv.gz"));
  const Run result = run(trace);
  EXPECT_LE(static_cast<double>(result.stats.reserved_peak_bytes),
            1.01 * static_cast<double>(trace::live_peak_bytes(trace)));
  if (repeats) {
    expect_no_remaps_after_the_second_step(trace, result);
  } else {
    EXPECT_LE(static_cast<double>(result.remapping_requests.size()) * 1000,
              5.0 * static_cast<double>(trace.events.size()));
  }
}

TEST(PoolTraces, ThatRepeatAStepHoldNothingInVainAndSettle) {
  for (const char* name : {"widecnn_b32", "vgg16_b64", "resnet50_b64"}) expect_little_waste(kOwnTraces, name, true);
}

TEST(PoolTraces, SharedOnesHoldNothingInVain) {
  if (!std::filesystem::exists(kSharedTraces)) GTEST_SKIP() << "no " << kSharedTraces;
  for (const char* name : {"densenet121_b32", "gpt2_b8_t1024"}) expect_little_waste(kSharedTraces, name, true);
  for (const char* name : {"gpt2_varlen", "resnet50_varsize"}) expect_little_waste(kSharedTraces, name, false);
}

}  // namespace
}  // namespace plimsoll
