#include "plimsoll/report/what_if.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <memory>
#include <set>

#include "plimsoll/base/error.h"
#include "plimsoll/explain/causes.h"
#include "plimsoll/explain/evidence.h"
#include "plimsoll/explain/expandable.h"
#include "plimsoll/memory/replay/policies.h"

namespace plimsoll::report {
namespace {

using explain::Action;
using explain::Lifetime;

constexpr size_t kMostReplayed = 6'000'000;  // events in all replays together: some seconds

enum Allocator : uint32_t { kAsRecorded, kTorch, kExpandable, kPool };

std::unique_ptr<replay::Policy> policy_of(Allocator allocator) {
  if (allocator == kExpandable) return std::make_unique<explain::ExpandableSegments>(replay::Device{});
  return replay::make_policy(allocator == kTorch ? "torch" : "pool", {});
}

class WhatIf {
 public:
  WhatIf(Page& page, const RecordedHistory& history)
      : page_(page),
        history_(history),
        blocks_(page.timelines.front().blocks),
        lifetimes_(drawn_lifetimes(history.timeline)) {
    const auto oom = find_oom(history.device);
    at_ = oom ? oom->event : history.timeline.peak_event;
    last_ = oom ? static_cast<int32_t>(oom->event) : page.timelines.front().positions - 1;
  }

  void add() {
    add_half_batch();
    add_half_precision();
    add_checkpointing();
    add_no_leak();
    page_.allocators = {"as recorded", "PyTorch, fresh start", "expandable segments", "Plimsoll's pool"};
    order_steps();
    const uint32_t masks = 1u << page_.switches.size();
    const bool replays_all = steps_.size() * masks * 3 <= kMostReplayed;
    for (uint32_t mask = 0; mask < masks; ++mask) add_view(mask, mask == 0 || replays_all);
  }

 private:
  struct Step {
    int64_t order = 0;
    uint32_t block = 0;
    bool takes = false;
  };

  uint8_t add_switch(PageSwitch entry) {
    page_.switches.push_back(std::move(entry));
    return static_cast<uint8_t>(1u << (page_.switches.size() - 1));
  }

  template <typename Affects>
  void mark(const PageSwitch& entry, const Affects& affects) {
    std::vector<size_t> affected;
    for (size_t i = 0; i < blocks_.size(); ++i) {
      if (affects(blocks_[i], i < lifetimes_.size() ? lifetimes_[i] : nullptr)) affected.push_back(i);
    }
    if (affected.empty()) return;
    const uint8_t bit = add_switch(entry);
    for (const size_t i : affected) blocks_[i].affected |= bit;
  }

  static bool is(const PageBlock& block, Category category) { return block.category == static_cast<uint8_t>(category); }
  static bool is_activation(const PageBlock& block) {
    return is(block, Category::activation) || block.category == kFailedRequest;
  }

  void add_half_batch() {
    mark({"half_batch", "half the batch", "activations and inputs take half the bytes", 0.5},
         [](const PageBlock& block, const Lifetime*) { return is_activation(block) || is(block, Category::input); });
  }

  void add_half_precision() {
    mark({"bf16", "bf16 activations", "activations in half the bytes, if they are f32 now; changes rounding", 0.5},
         [](const PageBlock& block, const Lifetime*) { return is_activation(block); });
  }

  // The inside of one block at a time stays; of the others their inputs. What that saves at the failure is what the
  // remedy says (a tenth for the inputs). Blocks that leak are no part of a model that repeats.
  void add_checkpointing() {
    const auto repeated = find_repeated_blocks(history_.input.snapshot.stacks, history_.timeline, at_);
    if (!repeated || !find_growth(history_.timeline, at_).empty()) return;
    std::map<uint32_t, int64_t> runs;
    for (const Lifetime* lifetime : lifetimes_) {
      if (is_repeatable(*lifetime) && lifetime->alive_at(at_)) ++runs[lifetime->stack];
    }
    std::erase_if(runs, [&](const auto& run) { return run.second < repeated->count; });
    const std::set<const Lifetime*> inside = last_blocks(runs, repeated->count);
    const auto affects = [&](const PageBlock&, const Lifetime* lifetime) {
      return lifetime != nullptr && is_repeatable(*lifetime) && runs.count(lifetime->stack) != 0 &&
             inside.count(lifetime) == 0;
    };
    int64_t affected = 0;
    for (const Lifetime* lifetime : lifetimes_) {
      if (lifetime->alive_at(at_) && affects({}, lifetime)) affected += lifetime->bytes;
    }
    if (affected == 0) return;
    const int64_t saved = repeated->bytes - repeated->bytes / repeated->count - repeated->bytes / 10;
    const double factor = 1 - static_cast<double>(saved) / static_cast<double>(affected);
    mark({"checkpointing", "checkpointing",
          fmt::format("the {} repeated blocks at {} keep their inputs alone, about a tenth; about 30 % more compute",
                      repeated->count, repeated->place),
          std::clamp(factor, 0.0, 1.0)},
         affects);
  }

  static bool is_repeatable(const Lifetime& lifetime) {
    return lifetime.category == Category::activation && lifetime.stack != 0;
  }

  // Of each stack in each step those that its last repetition made.
  std::set<const Lifetime*> last_blocks(const std::map<uint32_t, int64_t>& runs, int64_t count) const {
    std::map<std::pair<uint32_t, int64_t>, std::vector<const Lifetime*>> made;
    for (const Lifetime* lifetime : lifetimes_) {
      if (is_repeatable(*lifetime) && runs.count(lifetime->stack) != 0) {
        made[{lifetime->stack, step_of(*lifetime)}].push_back(lifetime);
      }
    }
    std::set<const Lifetime*> last;
    for (auto& [key, all] : made) {
      const auto kept = static_cast<std::ptrdiff_t>(runs.at(key.first) / count);
      std::sort(all.begin(), all.end(), [](const Lifetime* a, const Lifetime* b) { return a->begin > b->begin; });
      last.insert(all.begin(), all.begin() + std::min<std::ptrdiff_t>(kept, std::ssize(all)));
    }
    return last;
  }

  int64_t step_of(const Lifetime& lifetime) const {
    const auto& ends = history_.timeline.step_ends;
    return std::upper_bound(ends.begin(), ends.end(), lifetime.begin) - ends.begin();
  }

  void add_no_leak() {
    std::map<uint32_t, int64_t> kept;  // the last block of each leaking stack is in use, not leaked
    for (const explain::Growth& entry : find_growth(history_.timeline, at_)) kept[entry.stack] = -1;
    for (const Lifetime* lifetime : lifetimes_) {
      const auto entry = kept.find(lifetime->stack);
      if (entry != kept.end() && lifetime->alive_at(at_)) entry->second = std::max(entry->second, lifetime->begin);
    }
    mark({"no_leak", "without the leak", "what every step leaves behind is let go", 0},
         [&](const PageBlock&, const Lifetime* lifetime) {
           if (lifetime == nullptr || !lifetime->alive_at(at_)) return false;
           const auto entry = kept.find(lifetime->stack);
           return entry != kept.end() && lifetime->begin != entry->second;
         });
  }

  // Of two things at one position, what frees comes first.
  void order_steps() {
    for (uint32_t i = 0; i < blocks_.size(); ++i) {
      if (blocks_[i].begin > last_) continue;
      steps_.push_back({int64_t{2} * blocks_[i].begin + 1, i, true});
      if (blocks_[i].end <= last_) steps_.push_back({int64_t{2} * blocks_[i].end, i, false});
    }
    std::stable_sort(steps_.begin(), steps_.end(), [](const Step& a, const Step& b) { return a.order < b.order; });
  }

  double factor(const PageBlock& block, uint32_t mask) const {
    double product = 1;
    for (size_t i = 0; i < page_.switches.size(); ++i) {
      if ((block.affected & mask) >> i & 1u) product *= page_.switches[i].factor;
    }
    return product;
  }

  int64_t scaled_bytes(const PageBlock& block, uint32_t mask) const {
    return std::llround(static_cast<double>(block.bytes) * factor(block, mask));
  }

  void add_view(uint32_t mask, bool replays) {
    PageView view;
    view.switches = mask;
    view.peak_bytes = peak(mask);
    if (mask == 0) add_recorded(view);
    if (replays) {
      for (const Allocator allocator : {kTorch, kExpandable, kPool}) add_replayed(view, allocator);
    }
    page_.views.push_back(std::move(view));
  }

  int64_t peak(uint32_t mask) const {
    int64_t live = 0;
    int64_t most = 0;
    for (size_t i = 0; i < steps_.size(); ++i) {
      const int64_t bytes = scaled_bytes(blocks_[steps_[i].block], mask);
      live += steps_[i].takes ? bytes : -bytes;
      most = std::max(most, live);
    }
    return most;
  }

  int16_t stream_of(uint32_t block) const {
    if (block >= lifetimes_.size() || lifetimes_[block]->begin < 0) return 0;
    return static_cast<int16_t>(history_.device.events[static_cast<size_t>(lifetimes_[block]->begin)].stream);
  }

  // A history that an allocator cannot hold at all (a block beyond any device) has no line under it.
  void add_replayed(PageView& view, Allocator allocator) const {
    const auto policy = policy_of(allocator);
    PageReserved reserved{allocator, 0, {}, {}};
    try {
      for (const Step& step : steps_) {
        const int64_t bytes = scaled_bytes(blocks_[step.block], view.switches);
        if (bytes == 0) continue;
        step.takes ? policy->allocate(step.block, bytes, stream_of(step.block)) : policy->free(step.block);
        const int64_t peak = policy->stats().reserved_peak_bytes;
        if (peak == reserved.peak_bytes) continue;
        reserved.peak_bytes = peak;
        reserved.at.push_back(static_cast<int32_t>(step.order >> 1));
        reserved.bytes.push_back(peak);
      }
    } catch (const ResourceExhausted&) {
      return;
    }
    view.reserved.push_back(std::move(reserved));
  }

  static int64_t change_of(const explain::SnapshotEvent& event) {
    switch (event.action) {
      case Action::segment_alloc:
      case Action::segment_map:
        return event.bytes;
      case Action::segment_free:
      case Action::segment_unmap:
        return -event.bytes;
      default:
        return 0;
    }
  }

  // What the segments at the end and the events say, and at the failure what was asked for; a trace has neither.
  void add_recorded(PageView& view) const {
    if (history_.input.kind != explain::InputKind::snapshot || history_.device.segments.empty()) return;
    int64_t now = 0;
    for (const explain::Segment& segment : history_.device.segments) now += segment.bytes;
    for (const explain::SnapshotEvent& event : history_.device.events) now -= change_of(event);
    PageReserved reserved{kAsRecorded, now, {0}, {now}};
    for (size_t i = 0; i < history_.device.events.size(); ++i) {
      const int64_t change = change_of(history_.device.events[i]);
      if (change == 0) continue;
      now += change;
      reserved.at.push_back(static_cast<int32_t>(i));
      reserved.bytes.push_back(now);
      reserved.peak_bytes = std::max(reserved.peak_bytes, now);
    }
    if (const auto oom = find_oom(history_.device); oom && oom->requested_bytes < explain::kGarbage) {
      const int64_t wanted = reserved_bytes(history_.device, oom->event) + oom->requested_bytes;
      reserved.peak_bytes = std::max(reserved.peak_bytes, wanted);
    }
    view.reserved.push_back(std::move(reserved));
  }

  Page& page_;
  const RecordedHistory& history_;
  std::vector<PageBlock>& blocks_;
  std::vector<const Lifetime*> lifetimes_;  // of the blocks, in their order; the failed request has none
  int64_t at_ = 0;                          // event before which most is held
  int32_t last_ = 0;                        // position that counts
  std::vector<Step> steps_;
};

}  // namespace

std::vector<const Lifetime*> drawn_lifetimes(const explain::Timeline& timeline) {
  constexpr int64_t kMostBytes = int64_t{1} << 60;
  std::vector<const Lifetime*> drawn;
  int64_t all = 0;
  for (const Lifetime& lifetime : timeline.lifetimes) {
    if (lifetime.bytes <= 0 || lifetime.bytes > kMostBytes - all || lifetime.address > uint64_t{kMostBytes}) continue;
    all += lifetime.bytes;
    drawn.push_back(&lifetime);
  }
  return drawn;
}

void add_what_if(Page& page, const RecordedHistory& history) { WhatIf(page, history).add(); }

}  // namespace plimsoll::report
