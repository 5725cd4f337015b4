// What tests tell the stand-in, and ask of it.
#include <algorithm>

#include "tests/device/stand_in/world.h"

using namespace plimsoll::stand_in;

namespace {

void put_work(void* stream, const Work& work) {
  World& w = world();
  const Guard guard(w.mutex);
  if (w.streams[stream].capture) {
    put(w, stream, work);
  } else {
    w.streams[stream].queue.push_back(work);
  }
}

}  // namespace

void stand_in_reset(const StandInSettings* settings) {
  World& w = world();
  const Guard guard(w.mutex);
  w.settings = *settings;
  w.random.seed(settings->seed);
  w.counts = {};
  w.calls = w.fail_at = 0;
  w.launches = 0;
  for (auto& [handle, stream] : w.streams) {
    const bool is_hidden = stream.is_hidden;
    stream = {};
    stream.is_hidden = is_hidden;
  }
}

void stand_in_wait_at_most(double timeout_s) {
  World& w = world();
  const Guard guard(w.mutex);
  w.settings.timeout_s = timeout_s;
}

void stand_in_fail_at(int64_t n) {
  World& w = world();
  const Guard guard(w.mutex);
  w.fail_at = n == 0 ? 0 : w.calls + n;
}

int64_t stand_in_calls() {
  World& w = world();
  const Guard guard(w.mutex);
  return w.calls;
}

void stand_in_fill(void* stream, void* at, size_t bytes, uint64_t value) {
  put_work(stream, {Work::Kind::fill, static_cast<char*>(at), bytes, value});
}

void stand_in_check(void* stream, const void* at, size_t bytes, uint64_t value) {
  put_work(stream, {Work::Kind::check, const_cast<char*>(static_cast<const char*>(at)), bytes, value});
}

StandInCounts stand_in_counts() {
  World& w = world();
  const Guard guard(w.mutex);
  StandInCounts counts = w.counts;
  counts.handles = static_cast<int64_t>(w.handles.size());
  counts.mappings = static_cast<int64_t>(w.mappings.size());
  counts.ranges = static_cast<int64_t>(w.ranges.size());
  counts.events = static_cast<int64_t>(w.events.size());
  const auto is_of_program = [](const auto& entry) { return entry.first != nullptr && !entry.second.is_hidden; };
  counts.streams = std::count_if(w.streams.begin(), w.streams.end(), is_of_program);
  counts.allocations = static_cast<int64_t>(w.allocations.size());
  counts.graphs = static_cast<int64_t>(w.graphs.size() + w.execs.size());
  counts.launches = w.launches;
  return counts;
}
