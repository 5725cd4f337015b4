#include "plimsoll/explain/counterfactual.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "plimsoll/base/error.h"
#include "plimsoll/explain/causes.h"
#include "plimsoll/explain/evidence.h"
#include "plimsoll/explain/expandable.h"
#include "plimsoll/memory/replay/policies.h"
#include "plimsoll/pack/pack.h"

namespace plimsoll::explain {
namespace {

constexpr size_t kMostToPack = 2000;  // lifetimes; beyond, the packing search would not end in time

// A history cut at the failure, the failed request as one more block.
class Case {
 public:
  Case(const DeviceState& device, const Timeline& timeline)
      : device_(device), timeline_(timeline), oom_(find_oom(device)) {
    at_ = oom_ ? oom_->event : timeline.events;
    for (const Lifetime& lifetime : timeline.lifetimes) {
      if (lifetime.begin < at_ && lifetime.bytes > 0) lifetimes_.push_back(lifetime);
    }
    if (requested() > 0) {
      lifetimes_.push_back({requested(), at_, Lifetime::kAlive, 0, oom_->stack, 0, Category::activation});
    }
  }

  std::vector<Counterfactual> all() const {
    std::vector<Counterfactual> result;
    const int64_t reserved = reserved_bytes(device_, at_);
    if (reserved >= peak(whole) - requested()) {  // otherwise there was no allocator: the history is a trace
      result.push_back(
          {"as it was: reserved", reserved + requested(), requested() > 0 ? "with the failed request" : ""});
    }
    result.push_back(perfect());
    const trace::Trace trace = trace_of_lifetimes();
    add_policy(result, trace, *replay::make_policy("pool", {}), "under Plimsoll's pool");
    add_policy(result, trace, *replay::make_policy("torch", {}), "under PyTorch's allocator from a fresh start");
    ExpandableSegments expandable({});
    add_policy(result, trace, expandable, "the same with expandable segments");
    const int64_t halved = peak([](const Lifetime& life) { return scales(life) ? life.bytes / 2 : life.bytes; });
    if (halved < peak(whole)) {
      result.push_back({"at half the batch: live", halved, "activations and inputs halved"});
    }
    add_without_leak(result);
    return result;
  }

 private:
  static int64_t whole(const Lifetime& lifetime) { return lifetime.bytes; }
  // A size that is garbage counts for nothing.
  int64_t requested() const { return oom_ && oom_->requested_bytes < kGarbage ? oom_->requested_bytes : 0; }

  static bool scales(const Lifetime& lifetime) {
    return lifetime.category == Category::activation || lifetime.category == Category::input;
  }

  // The most alive at once when each block counts for `bytes_of`.
  template <typename BytesOf>
  int64_t peak(const BytesOf& bytes_of) const {
    std::vector<int64_t> change(static_cast<size_t>(at_) + 2, 0);
    for (const Lifetime& lifetime : lifetimes_) {
      change[static_cast<size_t>(lifetime.begin + 1)] += bytes_of(lifetime);
      if (lifetime.end < at_) change[static_cast<size_t>(lifetime.end + 1)] -= bytes_of(lifetime);
    }
    int64_t live = 0;
    int64_t most = 0;
    for (const int64_t step : change) most = std::max(most, live += step);
    return most;
  }

  Counterfactual perfect() const {
    const int64_t least = peak(whole);
    if (lifetimes_.size() > kMostToPack || lifetimes_.empty()) {
      return {"under perfect packing", least, "at least: the most alive at once"};
    }
    std::vector<pack::Buffer> buffers;
    for (const Lifetime& lifetime : lifetimes_) {
      pack::Buffer buffer;
      buffer.bytes = lifetime.bytes;
      buffer.first = lifetime.begin;
      buffer.end = std::max(std::min(lifetime.end, at_ + 1), lifetime.begin + 1);
      buffers.push_back(std::move(buffer));
    }
    pack::Options options;
    options.time_limit_s = 0.5;
    const auto packing = pack::pack(buffers, options);
    return {"under perfect packing", packing.best.peak_bytes,
            packing.best.optimal ? "proven least"
                                 : fmt::format("no packing needs less than {} bytes", packing.best.lower_bound_bytes)};
  }

  trace::Trace trace_of_lifetimes() const {
    trace::Trace trace;
    std::vector<std::pair<int64_t, trace::Event>> events;
    for (size_t i = 0; i < lifetimes_.size(); ++i) {
      const Lifetime& lifetime = lifetimes_[i];
      trace::Event event;
      event.id = static_cast<int64_t>(i);
      event.bytes = lifetime.bytes;
      event.stream = stream_of(lifetime);
      events.emplace_back(2 * lifetime.begin + 1, event);
      event.kind = trace::EventKind::free;
      if (lifetime.end < at_) events.emplace_back(2 * lifetime.end, event);
    }
    std::stable_sort(events.begin(), events.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
    for (const auto& entry : events) trace.events.push_back(entry.second);
    return trace;
  }

  int16_t stream_of(const Lifetime& lifetime) const {
    if (lifetime.begin < 0 || lifetime.begin >= timeline_.events) return 0;
    return static_cast<int16_t>(device_.events[static_cast<size_t>(lifetime.begin)].stream);
  }

  // A history that an allocator cannot hold at all (a block beyond any device) has no counterfactual under it.
  static void add_policy(std::vector<Counterfactual>& result, const trace::Trace& trace, replay::Policy& policy,
                         const char* name) {
    try {
      result.push_back({name, replay::replay(trace, policy).policy.reserved_peak_bytes, ""});
    } catch (const ResourceExhausted&) {
    }
  }

  void add_without_leak(std::vector<Counterfactual>& result) const {
    const auto growth = find_growth(timeline_, at_);
    if (growth.empty()) return;
    std::map<uint32_t, int64_t> kept;  // the last block of each leaking stack is in use, not leaked
    for (const Growth& entry : growth) kept[entry.stack] = -1;
    for (const Lifetime& lifetime : lifetimes_) {
      if (kept.count(lifetime.stack) != 0 && lifetime.alive_at(at_)) {
        kept[lifetime.stack] = std::max(kept[lifetime.stack], lifetime.begin);
      }
    }
    const int64_t needs = peak([&](const Lifetime& lifetime) {
      const auto found = kept.find(lifetime.stack);
      const bool leaked = found != kept.end() && lifetime.alive_at(at_) && lifetime.begin != found->second;
      return leaked ? 0 : lifetime.bytes;
    });
    result.push_back({"without the leak: live", needs, ""});
  }

  const DeviceState& device_;
  const Timeline& timeline_;
  std::optional<OomEvent> oom_;
  int64_t at_ = 0;
  std::vector<Lifetime> lifetimes_;
};

}  // namespace

std::vector<Counterfactual> counterfactuals(const DeviceState& device, const Timeline& timeline) {
  return Case(device, timeline).all();
}

}  // namespace plimsoll::explain
