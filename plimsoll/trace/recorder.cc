#include "plimsoll/trace/recorder.h"

#include <fmt/format.h>

#include <algorithm>
#include <new>

#include "plimsoll/base/bytes.h"
#include "plimsoll/base/error.h"
#include "plimsoll/trace/live_set.h"

namespace plimsoll::trace {
namespace {

Event* allocate_events(int64_t capacity) {
  const auto bytes = checked_multiply(capacity, sizeof(Event));
  if (capacity < 0 || !bytes) throw ArgumentError(fmt::format("a recorder cannot hold {} events", capacity));
  if (capacity == 0) return nullptr;
  auto* events = static_cast<Event*>(std::malloc(static_cast<size_t>(*bytes)));
  if (events == nullptr) throw std::bad_alloc();
  return events;
}

}  // namespace

Recorder::Recorder(int64_t capacity) : capacity_(capacity), events_(allocate_events(capacity)) {}

uint32_t Recorder::intern(Category category, std::string_view name) {
  const std::lock_guard guard(tags_mutex_);
  return tags_.intern(category, name);
}

Tag Recorder::tag(uint32_t index) const {
  const std::lock_guard guard(tags_mutex_);
  return tags_[index];
}

Trace Recorder::snapshot() const {
  Ring ring;
  {
    const std::lock_guard guard(lock_);
    ring = copy_ring();
  }
  return to_trace(std::move(ring));
}

Trace Recorder::take() {
  Ring ring;
  {
    const std::lock_guard guard(lock_);
    ring = copy_ring();
    next_ = 0;
    recorded_ = 0;
  }
  return to_trace(std::move(ring));
}

Recorder::Ring Recorder::copy_ring() const {
  Ring ring;
  const int64_t held = std::min(recorded_, capacity_);
  ring.overwritten = recorded_ - held;
  ring.events.reserve(static_cast<size_t>(held));
  const Event* begin = events_.get();
  if (recorded_ > capacity_) ring.events.assign(begin + next_, begin + capacity_);
  ring.events.insert(ring.events.end(), begin, begin + (recorded_ > capacity_ ? next_ : held));
  return ring;
}

Trace Recorder::to_trace(Ring ring) const {
  Trace trace;
  trace.dropped = ring.overwritten;
  const double ns_per_tick = clock_.ns_per_tick();
  LifetimeChecker lifetimes;
  int64_t latest_ns = 0;
  for (Event event : ring.events) {
    if (!lifetimes.accepts(event)) {
      ++trace.dropped;
      continue;
    }
    // Counters of two cores may differ by a little; time in a trace never runs back.
    latest_ns = std::max(latest_ns, static_cast<int64_t>(static_cast<double>(event.time_ns) * ns_per_tick));
    event.time_ns = latest_ns;
    trace.events.push_back(event);
  }
  const std::lock_guard guard(tags_mutex_);
  trace.tags = tags_;
  return trace;
}

}  // namespace plimsoll::trace
