// What was in device memory and how it got there: the state and the history that every reader makes and every cause
// is decided from. One Snapshot may hold several devices. Plain data.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "plimsoll/base/byte_source.h"
#include "plimsoll/base/pickle.h"
#include "plimsoll/trace/trace.h"

namespace plimsoll::explain {

struct Frame {
  uint32_t name = 0;  // in the StackTable's texts
  uint32_t file = 0;
  int32_t line = 0;
  bool operator==(const Frame&) const = default;
};

// Stacks by number, each once, innermost frame first. Number 0 is the empty stack: nothing was recorded.
class StackTable {
 public:
  StackTable() : first_{0, 0} {}

  uint32_t intern_frame(const Frame& frame);
  uint32_t intern(std::span<const uint32_t> frames);

  std::span<const uint32_t> frames(uint32_t stack) const {
    return {frame_ids_.data() + first_[stack], first_[stack + 1] - first_[stack]};
  }
  const Frame& frame(uint32_t id) const { return frames_[id]; }
  std::string_view name(uint32_t frame) const { return texts[frames_[frame].name]; }
  std::string_view file(uint32_t frame) const { return texts[frames_[frame].file]; }
  size_t size() const { return first_.size() - 1; }

  TextTable texts;

 private:
  std::vector<Frame> frames_;
  std::vector<uint32_t> frame_ids_;
  std::vector<size_t> first_;  // of each stack in frame_ids_, and one past the last
  HashIndex frame_index_;
  HashIndex stack_index_;
};

enum class Action : uint8_t {
  alloc,
  free_requested,  // the program let go; the block is reusable once its streams are done
  free_completed,
  segment_alloc,  // from the driver
  segment_free,
  segment_map,  // pages of an expandable segment
  segment_unmap,
  oom,
  other
};

struct SnapshotEvent {
  int64_t time_us = 0;
  uint64_t address = 0;  // for oom: bytes that the driver had free
  int64_t bytes = 0;
  uint32_t stack = 0;
  uint16_t stream = 0;  // number of the stream in order of appearance, not its handle
  Action action = Action::other;
  uint8_t reserved = 0;
};
static_assert(sizeof(SnapshotEvent) == 32);

enum class BlockState : uint8_t { active, pending_free, inactive };

struct Block {
  uint64_t address = 0;
  int64_t bytes = 0;
  int64_t requested_bytes = 0;
  uint32_t stack = 0;
  BlockState state = BlockState::inactive;
};

struct Segment {
  uint64_t address = 0;
  int64_t bytes = 0;
  int64_t stream = 0;
  bool small = false;
  bool expandable = false;
  bool private_pool = false;  // of a CUDA graph
  std::vector<Block> blocks;  // by address; they fill the segment
};

// A named span of time that the framework marked: "Optimizer.step#Adam.step".
struct Annotation {
  std::string name;
  int64_t time_us = 0;
  int device = 0;
  bool start = false;
};

struct DeviceState {
  int index = 0;
  std::vector<Segment> segments;
  std::vector<SnapshotEvent> events;  // in order of time
};

struct Snapshot {
  std::string source;
  StackTable stacks;
  std::vector<DeviceState> devices;  // only those with segments or events
  std::vector<Annotation> annotations;
  std::map<uint32_t, Category> categories;      // by stack, where the source itself tells what memory is for
  std::map<std::string, std::string> settings;  // of the allocator: "expandable_segments" -> "True"
};

// Reads what torch.cuda.memory._dump_snapshot writes (PyTorch 1.12 and later), plain or gzip. InputError.
Snapshot read_torch_snapshot(ByteSource& source);

// A trace as a snapshot: what is alive at its end as blocks, each tag as a stack of one frame.
Snapshot snapshot_of(const trace::Trace& trace, std::string source);

}  // namespace plimsoll::explain
