#include "plimsoll/memory/replay/policy.h"

#include <fmt/format.h>
#include <time.h>

#include <algorithm>
#include <vector>

#include "plimsoll/base/bytes.h"
#include "plimsoll/trace/live_set.h"

namespace plimsoll::replay {
namespace {

using trace::Event;
using trace::EventKind;
using trace::Trace;

// Events made ready: ids as slots, so that the timed loop is the policy's work and little else.
struct Step {
  int64_t bytes = 0;  // 0: free the slot
  uint32_t slot = 0;
  int16_t stream = 0;
};

std::vector<Step> steps_of(const Trace& trace) {
  std::vector<Step> steps;
  steps.reserve(trace.events.size());
  trace::LiveSet live;
  for (const Event& event : trace.events) {
    if (event.kind == EventKind::alloc) {
      steps.push_back({event.bytes, live.add(event.id), event.stream});
    } else {
      steps.push_back({0, live.find(event.id), event.stream});
      live.remove(event.id);
    }
  }
  return steps;
}

// Runs the steps; `done` counts them, so that a failure tells where it was.
void run(const std::vector<Step>& steps, Policy& policy, size_t& done) {
  for (; done < steps.size(); ++done) {
    const Step& step = steps[done];
    if (step.bytes > 0) {
      policy.allocate(step.slot, step.bytes, step.stream);
    } else {
      policy.free(step.slot);
    }
  }
}

// The blocks alive before event `end`, in the order of their allocation.
std::vector<Event> live_blocks(const Trace& trace, size_t end) {
  trace::LiveSet live;
  std::vector<size_t> opened;  // by slot
  std::vector<bool> alive(end);
  for (size_t i = 0; i < end; ++i) {
    const Event& event = trace.events[i];
    if (event.kind == EventKind::alloc) {
      const uint32_t slot = live.add(event.id);
      opened.resize(std::max<size_t>(opened.size(), slot + 1));
      opened[slot] = i;
      alive[i] = true;
    } else {
      alive[opened[live.find(event.id)]] = false;
      live.remove(event.id);
    }
  }
  std::vector<Event> blocks;
  for (size_t i = 0; i < end; ++i) {
    if (alive[i]) blocks.push_back(trace.events[i]);
  }
  return blocks;
}

std::string name_of(const Trace& trace, const Event& event) {
  const std::string& tag = trace.tags[event.tag].name;
  return tag.empty() ? fmt::format("id {}", event.id) : tag;
}

// Adds to `report` what the trace knows about the failure at event `failed`.
OomReport completed(OomReport report, const Trace& trace, size_t failed) {
  constexpr size_t kMostBlocks = 10;
  const trace::Tag& asked = trace.tags[trace.events[failed].tag];
  report.requested_bytes = trace.events[failed].bytes;
  report.tag = fmt::format("{} (event {})", name_of(trace, trace.events[failed]), failed + 1);
  report.category = asked.category;
  report.live_bytes = 0;
  report.live_by_category = {};
  report.largest_live.clear();
  std::vector<Event> blocks = live_blocks(trace, failed);
  for (const Event& block : blocks) {
    report.live_bytes += block.bytes;
    report.live_by_category[static_cast<size_t>(trace.tags[block.tag].category)] += block.bytes;
  }
  const size_t shown = std::min(kMostBlocks, blocks.size());
  const auto larger = [](const Event& a, const Event& b) { return a.bytes > b.bytes; };
  std::stable_sort(blocks.begin(), blocks.end(), larger);
  for (size_t i = 0; i < shown; ++i) {
    const trace::Tag& tag = trace.tags[blocks[i].tag];
    report.largest_live.push_back({blocks[i].bytes, tag.category, name_of(trace, blocks[i])});
  }
  const int64_t unused = report.reserved_bytes - report.live_bytes;
  if (report.live_bytes + report.requested_bytes <= report.budget.bytes) {
    report.help.push_back(
        fmt::format("{} are reserved and not live, in pieces that cannot serve this request", format_bytes(unused)));
  }
  return report;
}

// Processor time of this thread: other programs on the machine do not count.
int64_t cpu_ns() {
  timespec time{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return int64_t{time.tv_sec} * 1'000'000'000 + time.tv_nsec;
}

}  // namespace

double ReplayResult::ratio() const {
  if (live_peak_bytes == 0) return 1;
  return static_cast<double>(policy.reserved_peak_bytes) / static_cast<double>(live_peak_bytes);
}

double ReplayResult::remapping_per_1000_events() const {
  if (events == 0) return 0;
  return 1000 * static_cast<double>(policy.remapping_allocations) / static_cast<double>(events);
}

ReplayResult replay(const Trace& trace, Policy& policy) {
  const std::vector<Step> steps = steps_of(trace);
  size_t done = 0;
  const int64_t start_ns = cpu_ns();
  try {
    run(steps, policy, done);
  } catch (const ResourceExhausted& error) {
    throw ResourceExhausted(completed(error.report(), trace, done));
  }
  const int64_t spent_ns = cpu_ns() - start_ns;
  ReplayResult result;
  result.events = static_cast<int64_t>(steps.size());
  result.live_peak_bytes = trace::live_peak_bytes(trace);
  result.policy = policy.stats();
  if (result.events > 0) result.ns_per_event = static_cast<double>(spent_ns) / static_cast<double>(result.events);
  return result;
}

}  // namespace plimsoll::replay
