#include "plimsoll/explain/evidence.h"

#include <algorithm>
#include <map>
#include <tuple>

#include "plimsoll/base/bytes.h"
#include "plimsoll/explain/text_scan.h"

namespace plimsoll::explain {
namespace {

// The multiple of the largest power of two that lies in (least, most].
int64_t roundest(int64_t least, int64_t most) {
  for (int64_t unit = kTiB; unit > 1; unit /= 2) {
    const int64_t multiple = align_down(most, unit);
    if (multiple > least) return multiple;
  }
  return most;
}

// The number of steps that had ended when `event` came.
size_t steps_before(const std::vector<int64_t>& step_ends, int64_t event) {
  return static_cast<size_t>(std::upper_bound(step_ends.begin(), step_ends.end(), event) - step_ends.begin());
}

struct Survivors {
  std::map<size_t, int64_t> bytes_by_slice;
  int64_t bytes = 0;
  int64_t blocks = 0;
};

// What is left of allocations made in slices of the recording, by stack. Only what can leak: not weights, not
// optimizer state, not gradients.
template <typename SliceOf>
std::map<uint32_t, Survivors> survivors(const Timeline& timeline, int64_t event, const SliceOf& slice_of) {
  std::map<uint32_t, Survivors> by_stack;
  for (const Lifetime& lifetime : timeline.lifetimes) {
    const bool can_leak = lifetime.category == Category::activation || lifetime.category == Category::input ||
                          lifetime.category == Category::other;
    if (!can_leak || lifetime.begin < 0 || lifetime.stack == 0 || !lifetime.alive_at(event)) continue;
    Survivors& entry = by_stack[lifetime.stack];
    entry.bytes_by_slice[slice_of(lifetime.begin)] += lifetime.bytes;
    entry.bytes += lifetime.bytes;
    ++entry.blocks;
  }
  return by_stack;
}

// The first step warms up, and the last finished one may rightly be held until the next replaces it.
std::vector<Growth> growth_over_steps(const Timeline& timeline, int64_t event) {
  std::vector<Growth> found;
  const size_t finished = steps_before(timeline.step_ends, event);
  const auto slice_of = [&](int64_t begin) { return steps_before(timeline.step_ends, begin); };
  for (const auto& [stack, entry] : survivors(timeline, event, slice_of)) {
    int64_t steps = 0;
    int64_t bytes = 0;
    for (const auto& [step, left] : entry.bytes_by_slice) {
      if (step == 0 || step + 1 >= finished) continue;
      ++steps;
      bytes += left;
    }
    const auto judged = static_cast<int64_t>(finished) - 2;
    if (steps < 3 || steps * 10 < judged * 8) continue;
    found.push_back({stack, bytes / judged, entry.bytes, entry.blocks, judged, true});
  }
  return found;
}

// Without steps: a stack that leaves blocks behind all along the recording while nearly everything else is freed.
std::vector<Growth> growth_over_calls(const Timeline& timeline, int64_t event) {
  constexpr int64_t kSlices = 8;
  std::vector<Growth> found;
  int64_t allocated = 0;
  for (const Lifetime& lifetime : timeline.lifetimes) allocated += lifetime.begin >= 0 ? lifetime.bytes : 0;
  const auto slice_of = [&](int64_t begin) {
    return static_cast<size_t>(begin * kSlices / std::max<int64_t>(event, 1));
  };
  const auto by_stack = survivors(timeline, event, slice_of);
  int64_t left = 0;
  for (const auto& [stack, entry] : by_stack) left += entry.bytes;
  if (left * 10 > allocated * 3) return found;  // a forward pass keeps most of what it makes; that is no leak
  for (const auto& [stack, entry] : by_stack) {
    const bool all_along = entry.bytes_by_slice.size() >= kSlices - 1;
    if (entry.blocks < 2 * kSlices || !all_along) continue;
    found.push_back({stack, entry.bytes / entry.blocks, entry.bytes, entry.blocks, entry.blocks, false});
  }
  return found;
}

// How often the typical repeated stack ran: the count above two that most stacks share.
int64_t most_common_run(const std::map<uint32_t, int64_t>& runs) {
  std::map<int64_t, int64_t> stacks_by_count;
  for (const auto& [stack, count] : runs) stacks_by_count[count] += count > 2 ? 1 : 0;
  const auto fewer = [](const auto& a, const auto& b) { return a.second < b.second; };
  const auto most = std::max_element(stacks_by_count.begin(), stacks_by_count.end(), fewer);
  return most == stacks_by_count.end() || most->second == 0 ? 0 : most->first;
}

// Cuts `common`, frames from the outermost in, to what `stack` shares with it.
void keep_common(const StackTable& stacks, uint32_t stack, std::vector<uint32_t>& common) {
  const auto frames = stacks.frames(stack);
  const std::vector<uint32_t> outer(frames.rbegin(), frames.rend());
  if (common.empty()) {
    common = outer;
    return;
  }
  const auto differ = std::mismatch(common.begin(), common.end(), outer.begin(), outer.end());
  common.erase(differ.first, common.end());
}

Culprit make_culprit(const StackTable& stacks, const Lifetime& lifetime) {
  Culprit culprit;
  culprit.stack = stack_text(stacks, lifetime.stack);
  culprit.category = lifetime.category;
  if (lifetime.stack == 0) {
    const bool autograd = lifetime.category == Category::activation || lifetime.category == Category::gradient;
    culprit.place = lifetime.begin < 0 ? "(older than the recording)"
                    : autograd         ? "(no stack: the autograd engine's threads)"
                                       : "(no stack recorded)";
    return culprit;
  }
  culprit.place = user_frame(stacks, lifetime.stack);
  culprit.innermost = culprit.stack.front();
  culprit.module = module_path(stacks, lifetime.stack);
  return culprit;
}

}  // namespace

std::optional<OomEvent> find_oom(const DeviceState& device) {
  constexpr uint64_t kMost = uint64_t{1} << 60;  // beyond it the figure is rubbish, and sums would overflow
  for (size_t i = device.events.size(); i-- > 0;) {
    const SnapshotEvent& event = device.events[i];
    if (event.action != Action::oom) continue;
    return OomEvent{static_cast<int64_t>(i), event.bytes, static_cast<int64_t>(std::min(event.address, kMost)),
                    event.stack};
  }
  return std::nullopt;
}

int64_t reserved_bytes(const DeviceState& device, int64_t event) {
  int64_t bytes = 0;
  for (const Segment& segment : device.segments) bytes += segment.bytes;
  for (size_t i = device.events.size(); i-- > static_cast<size_t>(event);) {
    const SnapshotEvent& later = device.events[i];
    if (later.action == Action::segment_alloc || later.action == Action::segment_map) bytes -= later.bytes;
    if (later.action == Action::segment_free || later.action == Action::segment_unmap) bytes += later.bytes;
  }
  return bytes;
}

std::optional<CapEstimate> estimate_cap(const OomEvent& oom, int64_t reserved) {
  // Requests are rounded up to segments of at most 20 MiB above the request; that much room must be there.
  const auto most = checked_add(reserved, oom.requested_bytes);
  const auto needed = checked_add(oom.requested_bytes, 20 * kMiB);
  if (!most || !needed || oom.device_free_bytes < *needed) return std::nullopt;
  return CapEstimate{roundest(reserved, *most), reserved, *most};
}

std::vector<Growth> find_growth(const Timeline& timeline, int64_t event) {
  const bool enough_steps = steps_before(timeline.step_ends, event) >= 5;
  auto found = enough_steps ? growth_over_steps(timeline, event)
                            : (timeline.step_ends.empty() ? growth_over_calls(timeline, event) : std::vector<Growth>{});
  std::sort(found.begin(), found.end(), [](const Growth& a, const Growth& b) { return a.bytes > b.bytes; });
  return found;
}

StepPeaks step_peaks(const Timeline& timeline, int64_t event) {
  std::vector<int64_t> change(static_cast<size_t>(timeline.events) + 1, 0);
  for (const Lifetime& lifetime : timeline.lifetimes) {
    if (lifetime.begin >= 0) change[static_cast<size_t>(lifetime.begin)] += lifetime.bytes;
    if (lifetime.end < timeline.events) change[static_cast<size_t>(lifetime.end)] -= lifetime.bytes;
  }
  StepPeaks peaks;
  int64_t live = timeline.start_bytes;
  size_t step = 0;
  for (int64_t i = 0; i < event; ++i) {
    for (; step < timeline.step_ends.size() && timeline.step_ends[step] <= i; ++step) {
      peaks.finished.push_back(peaks.current);
      peaks.current = live;
    }
    live += change[static_cast<size_t>(i)];
    peaks.current = std::max(peaks.current, live);
  }
  return peaks;
}

std::vector<PinnedSegment> pinned_segments(const DeviceState& device) {
  std::vector<PinnedSegment> pinned;
  for (const Segment& segment : device.segments) {
    PinnedSegment entry{segment.address, segment.bytes, 0, 0, 0, 0};
    int64_t largest_live = 0;
    for (const Block& block : segment.blocks) {
      if (block.state == BlockState::inactive) {
        entry.free_bytes += block.bytes;
        entry.largest_free_bytes = std::max(entry.largest_free_bytes, block.bytes);
        continue;
      }
      ++entry.live_blocks;
      if (block.bytes > largest_live) entry.stack = block.stack;
      largest_live = std::max(largest_live, block.bytes);
    }
    if (entry.free_bytes > 0 && entry.live_blocks > 0) pinned.push_back(entry);
  }
  std::sort(pinned.begin(), pinned.end(), [](const auto& a, const auto& b) { return a.free_bytes > b.free_bytes; });
  return pinned;
}

std::optional<RepeatedBlocks> find_repeated_blocks(const StackTable& stacks, const Timeline& timeline, int64_t event) {
  const auto roles = stack_roles(stacks);
  std::map<uint32_t, int64_t> runs;  // live activations by stack
  for (const Lifetime& lifetime : timeline.lifetimes) {
    if (lifetime.category != Category::activation || lifetime.stack == 0 || !lifetime.alive_at(event)) continue;
    if (roles[lifetime.stack].checkpointing) return std::nullopt;
    ++runs[lifetime.stack];
  }
  RepeatedBlocks blocks;
  blocks.count = most_common_run(runs);
  if (blocks.count < 3) return std::nullopt;
  std::vector<uint32_t> common;  // outermost first
  for (const auto& [stack, count] : runs) {
    if (count % blocks.count == 0) keep_common(stacks, stack, common);
  }
  for (const Lifetime& lifetime : timeline.lifetimes) {
    const bool repeats = lifetime.category == Category::activation && runs.count(lifetime.stack) != 0 &&
                         runs[lifetime.stack] >= blocks.count;
    if (repeats && lifetime.alive_at(event)) blocks.bytes += lifetime.bytes;
  }
  for (const uint32_t frame : common) {
    if (is_torch_file(stacks.file(frame))) continue;
    if (blocks.place.empty() || stacks.name(frame) == "forward") blocks.place = frame_text(stacks, frame);
    blocks.transformers = blocks.transformers || contains(stacks.file(frame), "transformers/");
  }
  return blocks;
}

std::vector<Culprit> culprits(const StackTable& stacks, const Timeline& timeline, int64_t event, size_t most) {
  std::map<std::pair<uint32_t, int>, Culprit> by_stack;  // without a stack, by whether it is older than the recording
  for (const Lifetime& lifetime : timeline.lifetimes) {
    if (!lifetime.alive_at(event)) continue;
    const int kind = static_cast<int>(lifetime.category) + (lifetime.stack == 0 && lifetime.begin < 0 ? 100 : 0);
    const auto [entry, is_new] = by_stack.try_emplace({lifetime.stack, kind});
    if (is_new) entry->second = make_culprit(stacks, lifetime);
    entry->second.bytes += lifetime.bytes;
    ++entry->second.blocks;
  }
  // Stacks that read the same for the user (a wrapper's other line, a C++ frame) are one row.
  std::map<std::tuple<std::string, std::string, std::string, Category>, Culprit> rows;
  for (auto& [key, culprit] : by_stack) {
    const auto [row, is_new] =
        rows.try_emplace({culprit.place, culprit.module, culprit.innermost, culprit.category}, culprit);
    if (is_new) continue;
    row->second.bytes += culprit.bytes;
    row->second.blocks += culprit.blocks;
  }
  std::vector<Culprit> result;
  for (auto& [key, culprit] : rows) result.push_back(std::move(culprit));
  std::sort(result.begin(), result.end(), [](const Culprit& a, const Culprit& b) { return a.bytes > b.bytes; });

  Culprit rest;
  for (size_t i = most; i < result.size(); ++i) {
    rest.bytes += result[i].bytes;
    rest.blocks += result[i].blocks;
  }
  rest.place = "(all other places)";
  result.resize(std::min(result.size(), most));
  if (rest.blocks > 0) result.push_back(rest);
  return result;
}

}  // namespace plimsoll::explain
