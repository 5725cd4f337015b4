// The pickle that torch.cuda.memory._dump_snapshot writes:
//   {"segments": [{"device", "address", "total_size", "blocks": [{"size", "state", "frames": [...]}...]}...],
//    "device_traces": [[{"action", "addr", "size", "stream", "time_us", "frames": [...]}...] per device],
//    "allocator_settings": {...}, "external_annotations": [{"stage", "name", "device", "time_us"}...]}
// PyTorch 1.12 wrote the list of segments alone, 2.0 put a block's frames under "history".
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include "plimsoll/base/bytes.h"
#include "plimsoll/base/error.h"
#include "plimsoll/explain/snapshot.h"

namespace plimsoll::explain {
namespace {

// Keys of the dicts that there are many of. They are the first texts interned, so that a key's number is its place
// here.
enum Key : uint32_t {
  kAction,
  kAddr,
  kSize,
  kStream,
  kTime,
  kFrames,
  kDeviceFree,
  kName,
  kFilename,
  kLine,
  kState,
  kAddress,
  kRequested,
  kHistory,
  kKeys
};
constexpr std::array<std::string_view, kKeys> kKeyTexts = {
    "action", "addr",     "size", "stream", "time_us", "frames",         "device_free",
    "name",   "filename", "line", "state",  "address", "requested_size", "history"};

// Interned after the keys, in the order of Action.
constexpr std::array<std::string_view, 8> kActionTexts = {
    "alloc",        "free_requested", "free_completed", "segment_alloc",
    "segment_free", "segment_map",    "segment_unmap",  "oom"};

constexpr size_t kLeastEventBytes = 64;            // that an event takes in a pickle
constexpr int64_t kLargestSum = int64_t{1} << 60;  // of bytes over a whole file; beyond it the numbers are rubbish

enum class Object : uint64_t { frame, stack, event, block };
constexpr uint64_t encode(Object type, uint64_t number) { return number << 2 | static_cast<uint64_t>(type); }
constexpr Object type_of(uint64_t object) { return static_cast<Object>(object & 3); }

// Turns frames, stacks, events and blocks into rows of tables as soon as they are read.
class Reducer : public PickleReducer {
 public:
  Reducer(StackTable& stacks, PickleHeap& heap, const ByteSource& source)
      : stacks_(stacks), heap_(heap), source_(source.name()) {
    events.reserve(source.expected_bytes() / kLeastEventBytes);  // pages that are not used in the end cost nothing
    for (const std::string_view text : kKeyTexts) stacks.texts.intern(text);
    for (const std::string_view text : kActionTexts) stacks.texts.intern(text);
  }

  std::optional<uint64_t> reduce_dict(std::optional<uint64_t> existing, std::span<const PickleValue> items) override {
    if (existing) return update(*existing, items);
    for (size_t i = 0; i < items.size(); i += 2) {
      switch (key(items[i])) {
        case kAction:
          return encode(Object::event, fill_event(new_row(events), items));
        case kFilename:
          return encode(Object::frame, frame(items));
        case kState:
          return encode(Object::block, fill_block(new_row(blocks), items));
        default:
          break;
      }
    }
    return std::nullopt;
  }

  std::optional<uint64_t> reduce_list(std::optional<uint64_t> existing, std::span<const PickleValue> items) override {
    scratch_.clear();
    if (existing) {
      const auto known = stacks_.frames(static_cast<uint32_t>(*existing >> 2));
      scratch_.assign(known.begin(), known.end());
    }
    size_t count = scratch_.size();
    scratch_.resize(count + items.size());
    for (const PickleValue item : items) {
      const auto object = heap_.object(item);
      if (!object || type_of(*object) != Object::frame) return std::nullopt;
      scratch_[count++] = static_cast<uint32_t>(*object >> 2);
    }
    return encode(Object::stack, stacks_.intern(scratch_));
  }

  std::vector<SnapshotEvent> events;
  std::vector<Block> blocks;

 private:
  uint32_t key(PickleValue value) const {
    return value.is(PickleKind::text) ? static_cast<uint32_t>(value.index()) : uint32_t{kKeys};
  }

  template <typename Row>
  static size_t new_row(std::vector<Row>& rows) {
    rows.emplace_back();
    return rows.size() - 1;
  }

  // Picklers fill a dict once; only one of more than a thousand keys comes in parts.
  std::optional<uint64_t> update(uint64_t object, std::span<const PickleValue> items) {
    if (type_of(object) == Object::event) return encode(Object::event, fill_event(object >> 2, items));
    if (type_of(object) == Object::block) return encode(Object::block, fill_block(object >> 2, items));
    return std::nullopt;
  }

  size_t fill_event(size_t row, std::span<const PickleValue> items) {
    SnapshotEvent& event = events[row];
    PickleValue size;
    for (size_t i = 0; i < items.size(); i += 2) {
      const PickleValue value = items[i + 1];
      switch (key(items[i])) {
        case kAction:
          event.action = action(value);
          break;
        case kAddr:
        case kDeviceFree:
          event.address = heap_.address(value);
          break;
        case kSize:
          size = value;
          break;
        case kStream:
          event.stream = stream(value);
          break;
        case kTime:
          event.time_us = heap_.integer(value).value_or(0);
          break;
        case kFrames:
          event.stack = stack(value);
          break;
        default:
          break;
      }
    }
    if (!size.is(PickleKind::none)) event.bytes = event.action == Action::oom ? wanted(size) : bytes(size);
    return row;
  }

  size_t fill_block(size_t row, std::span<const PickleValue> items) {
    Block& block = blocks[row];
    for (size_t i = 0; i < items.size(); i += 2) {
      const PickleValue value = items[i + 1];
      switch (key(items[i])) {
        case kAddress:
          block.address = heap_.address(value);
          break;
        case kSize:
          block.bytes = bytes(value);
          break;
        case kRequested:
          block.requested_bytes = heap_.integer(value).value_or(0);
          break;
        case kState:
          block.state = state(value);
          break;
        case kFrames:
          block.stack = stack(value);
          break;
        case kHistory:
          block.stack = stack_of_history(value);
          break;
        default:
          break;
      }
    }
    return row;
  }

  uint64_t frame(std::span<const PickleValue> items) {
    Frame frame;
    for (size_t i = 0; i < items.size(); i += 2) {
      const PickleValue value = items[i + 1];
      if (key(items[i]) == kName) frame.name = text(value);
      if (key(items[i]) == kFilename) frame.file = text(value);
      if (key(items[i]) == kLine) frame.line = static_cast<int32_t>(heap_.integer(value).value_or(0));
    }
    return stacks_.intern_frame(frame);
  }

  uint32_t text(PickleValue value) {
    return value.is(PickleKind::text) ? static_cast<uint32_t>(value.index()) : stacks_.texts.intern("");
  }

  Action action(PickleValue value) const {
    for (size_t i = 0; i < kActionTexts.size(); ++i) {
      if (value == PickleValue(PickleKind::text, static_cast<int64_t>(kKeys + i))) return static_cast<Action>(i);
    }
    return Action::other;
  }

  BlockState state(PickleValue value) const {
    const auto text = heap_.text(value).value_or("");
    if (text.starts_with("active_allocated")) return BlockState::active;
    return text.starts_with("active") ? BlockState::pending_free : BlockState::inactive;
  }

  uint32_t stack(PickleValue value) const {
    const auto object = heap_.object(value);
    return object && type_of(*object) == Object::stack ? static_cast<uint32_t>(*object >> 2) : 0;
  }

  uint32_t stack_of_history(PickleValue history) const {
    const auto entries = heap_.items(history);
    return entries.empty() ? 0 : stack(heap_.find(entries[0], "frames"));
  }

  // Streams are handles; what matters is which are the same.
  uint16_t stream(PickleValue value) {
    const uint64_t handle = heap_.address(value);
    const auto found = std::find(streams_.begin(), streams_.end(), handle);
    if (found != streams_.end()) return static_cast<uint16_t>(found - streams_.begin());
    if (streams_.size() < 4096) streams_.push_back(handle);
    return static_cast<uint16_t>(streams_.size() - 1);
  }

  int64_t bytes(PickleValue value) {
    const auto size = heap_.integer(value);
    if (!size || *size < 0 || *size > kLargestSum - sum_) {
      throw InputError({.source = source_}, "found a block whose size is no number of bytes that memory can have");
    }
    sum_ += *size;
    return *size;
  }

  // A failed request may be garbage, and then that is the finding.
  int64_t wanted(PickleValue value) const {
    const auto size = heap_.integer(value);
    return size && *size >= 0 ? *size : INT64_MAX;
  }

  StackTable& stacks_;
  PickleHeap& heap_;
  std::string source_;
  std::vector<uint32_t> scratch_;
  std::vector<uint64_t> streams_;
  int64_t sum_ = 0;
};

// Puts the rows together into a Snapshot.
class Builder {
 public:
  Builder(Snapshot& snapshot, PickleHeap& heap, Reducer& reducer)
      : snapshot_(snapshot), heap_(heap), reducer_(reducer) {}

  void build(PickleValue root) {
    const bool bare = heap_.is_list(root);
    const PickleValue segments = bare ? root : heap_.find(root, "segments");
    if (!heap_.is_list(segments)) refuse(root);
    for (const PickleValue segment : heap_.items(segments)) add_segment(segment);
    if (!bare) add_history(root);
    std::erase_if(snapshot_.devices, [](const DeviceState& d) { return d.segments.empty() && d.events.empty(); });
  }

 private:
  [[noreturn]] void refuse(PickleValue root) const {
    std::string keys;
    const auto items = heap_.is_dict(root) ? heap_.items(root) : std::span<const PickleValue>{};
    for (size_t i = 0; i < std::min<size_t>(items.size(), 12); i += 2) {
      keys += (keys.empty() ? "" : ", ") + quote(heap_.text(items[i]).value_or("?"));
    }
    throw InputError({.source = snapshot_.source}, keys.empty() ? "a pickle of something else" : "a dict of " + keys,
                     "a PyTorch memory snapshot: a dict with a list under 'segments'");
  }

  DeviceState& device(int64_t index) {
    if (index < 0 || index > 4095) {
      throw InputError({.source = snapshot_.source}, fmt::format("device {}", index), "a device from 0 to 4095");
    }
    for (DeviceState& known : snapshot_.devices) {
      if (known.index == index) return known;
    }
    DeviceState added;
    added.index = static_cast<int>(index);
    snapshot_.devices.push_back(std::move(added));
    return snapshot_.devices.back();
  }

  int64_t integer(PickleValue dict, std::string_view key) const {
    return heap_.integer(heap_.find(dict, key)).value_or(0);
  }

  void add_segment(PickleValue dict) {
    if (!heap_.is_dict(dict)) refuse(dict);
    Segment segment;
    segment.address = heap_.address(heap_.find(dict, "address"));
    segment.bytes = integer(dict, "total_size");
    segment.stream = integer(dict, "stream");
    segment.small = heap_.text(heap_.find(dict, "segment_type")) == "small";
    segment.expandable = heap_.number(heap_.find(dict, "is_expandable")).value_or(0) != 0;
    for (const PickleValue part : heap_.items(heap_.find(dict, "segment_pool_id"))) {
      segment.private_pool = segment.private_pool || heap_.integer(part).value_or(0) != 0;
    }
    add_blocks(segment, heap_.find(dict, "blocks"));
    device(integer(dict, "device")).segments.push_back(std::move(segment));
  }

  void add_blocks(Segment& segment, PickleValue list) {
    uint64_t next = segment.address;
    int64_t sum = 0;
    for (const PickleValue item : heap_.items(list)) {
      const auto object = heap_.object(item);
      if (!object || type_of(*object) != Object::block) continue;
      Block block = reducer_.blocks[*object >> 2];
      if (block.address == 0) block.address = next;  // PyTorch before 2.1 leaves it to be counted
      next = block.address + static_cast<uint64_t>(block.bytes);
      sum += block.bytes;
      segment.blocks.push_back(block);
    }
    if (segment.bytes < sum || segment.bytes > kLargestSum) {
      throw InputError({.source = snapshot_.source}, fmt::format("a segment of {} bytes", segment.bytes),
                       fmt::format("at least the {} bytes of its blocks", sum));
    }
  }

  void add_history(PickleValue root) {
    int64_t index = 0;
    for (const PickleValue list : heap_.items(heap_.find(root, "device_traces"))) add_events(device(index++), list);
    for (const PickleValue dict : heap_.items(heap_.find(root, "external_annotations"))) add_annotation(dict);
    const auto settings = heap_.items(heap_.find(root, "allocator_settings"));
    for (size_t i = 0; i + 1 < settings.size(); i += 2) add_setting(settings[i], settings[i + 1]);
  }

  void add_events(DeviceState& device, PickleValue list) {
    const auto items = heap_.items(list);
    if (items.size() == reducer_.events.size() && in_order(items)) {
      device.events = std::move(reducer_.events);  // the only device: no second copy of the largest table
      return;
    }
    for (const PickleValue item : items) {
      const auto object = heap_.object(item);
      if (object && type_of(*object) == Object::event && *object >> 2 < reducer_.events.size()) {
        device.events.push_back(reducer_.events[*object >> 2]);
      }
    }
  }

  bool in_order(std::span<const PickleValue> items) const {
    for (size_t i = 0; i < items.size(); ++i) {
      if (heap_.object(items[i]) != encode(Object::event, i)) return false;
    }
    return true;
  }

  void add_annotation(PickleValue dict) {
    Annotation annotation;
    annotation.name = heap_.text(heap_.find(dict, "name")).value_or("");
    annotation.time_us = integer(dict, "time_us");
    annotation.device = static_cast<int>(integer(dict, "device"));
    annotation.start = heap_.text(heap_.find(dict, "stage")) == "START";
    snapshot_.annotations.push_back(std::move(annotation));
  }

  void add_setting(PickleValue key, PickleValue value) {
    const auto name = heap_.text(key);
    if (!name) return;
    std::string& text = snapshot_.settings[std::string(*name)];
    if (value.is(PickleKind::boolean)) {
      text = value.payload() != 0 ? "True" : "False";
    } else if (const auto number = heap_.number(value)) {
      text = fmt::format("{}", *number);
    } else {
      text = heap_.text(value).value_or("");
    }
  }

  Snapshot& snapshot_;
  PickleHeap& heap_;
  Reducer& reducer_;
};

}  // namespace

Snapshot read_torch_snapshot(ByteSource& source) {
  Snapshot snapshot;
  snapshot.source = source.name();
  PickleHeap heap(snapshot.stacks.texts);
  Reducer reducer(snapshot.stacks, heap, source);
  const PickleValue root = read_pickle(source, heap, &reducer);
  Builder(snapshot, heap, reducer).build(root);
  return snapshot;
}

}  // namespace plimsoll::explain
