// What tests tell the stand-in, and ask of it.
#include "tests/device/stand_in/world.h"

using namespace plimsoll::stand_in;

namespace {

void put(void* stream, const Work& work) {
  World& w = world();
  const Guard guard(w.mutex);
  w.streams[stream].queue.push_back(work);
}

}  // namespace

void stand_in_reset(const StandInSettings* settings) {
  World& w = world();
  const Guard guard(w.mutex);
  w.settings = *settings;
  w.random.seed(settings->seed);
  w.counts = {};
  w.calls = w.fail_at = 0;
  for (auto& [handle, stream] : w.streams) stream = {};
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
  put(stream, {Work::Kind::fill, static_cast<char*>(at), bytes, value, {}});
}

void stand_in_check(void* stream, const void* at, size_t bytes, uint64_t value) {
  put(stream, {Work::Kind::check, const_cast<char*>(static_cast<const char*>(at)), bytes, value, {}});
}

StandInCounts stand_in_counts() {
  World& w = world();
  const Guard guard(w.mutex);
  StandInCounts counts = w.counts;
  counts.handles = static_cast<int64_t>(w.handles.size());
  counts.mappings = static_cast<int64_t>(w.mappings.size());
  counts.ranges = static_cast<int64_t>(w.ranges.size());
  counts.events = static_cast<int64_t>(w.events.size());
  return counts;
}
