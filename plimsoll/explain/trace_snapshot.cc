// Our own traces as snapshots.
#include <algorithm>
#include <map>

#include "plimsoll/explain/snapshot.h"

namespace plimsoll::explain {
namespace {

// A tag becomes a stack of one frame without a file.
uint32_t stack_of(Snapshot& snapshot, const trace::Tag& tag) {
  if (tag.name.empty() && tag.category == Category::other) return 0;
  const std::string_view label = tag.name.empty() ? name(tag.category) : std::string_view(tag.name);
  const uint32_t frame = snapshot.stacks.intern_frame(
      {snapshot.stacks.texts.intern(label), snapshot.stacks.texts.intern(""), static_cast<int32_t>(tag.category)});
  const uint32_t stack = snapshot.stacks.intern({&frame, 1});
  snapshot.categories[stack] = tag.category;
  return stack;
}

}  // namespace

Snapshot snapshot_of(const trace::Trace& trace, std::string source) {
  Snapshot snapshot;
  snapshot.source = std::move(source);
  snapshot.categories[0] = Category::other;  // without a tag nothing is known
  std::vector<uint32_t> stacks;
  for (uint32_t tag = 0; tag < trace.tags.size(); ++tag) stacks.push_back(stack_of(snapshot, trace.tags[tag]));
  DeviceState device;
  std::map<int64_t, Block> alive;
  for (const trace::Event& event : trace.events) {
    const bool alloc = event.kind == trace::EventKind::alloc;
    const auto address = static_cast<uint64_t>(event.id);
    device.events.push_back({event.time_ns / 1000, address, event.bytes, stacks[event.tag],
                             static_cast<uint16_t>(event.stream), alloc ? Action::alloc : Action::free_requested, 0});
    if (alloc) {
      alive[event.id] = {address, event.bytes, event.bytes, stacks[event.tag], BlockState::active};
    } else {
      alive.erase(event.id);
    }
  }
  for (const auto& [id, block] : alive) {
    Segment segment;
    segment.address = block.address;
    segment.bytes = block.bytes;
    segment.blocks.push_back(block);
    device.segments.push_back(std::move(segment));
  }
  snapshot.devices.push_back(std::move(device));
  return snapshot;
}

}  // namespace plimsoll::explain
