#include "plimsoll/explain/snapshot.h"

#include <algorithm>

namespace plimsoll::explain {

namespace {

// Two chains that do not wait for each other: this is the hot loop of reading a snapshot.
uint64_t hash_of(std::span<const uint32_t> frame_ids) {
  constexpr uint64_t kFactor = 0x9e3779b97f4a7c15u;
  uint64_t even = frame_ids.size();
  uint64_t odd = 0;
  size_t i = 0;
  for (; i + 1 < frame_ids.size(); i += 2) {
    even = even * kFactor + frame_ids[i];
    odd = odd * kFactor + frame_ids[i + 1];
  }
  if (i < frame_ids.size()) even = even * kFactor + frame_ids[i];
  return mix_hash(even, odd);
}

}  // namespace

uint32_t StackTable::intern_frame(const Frame& frame) {
  const uint64_t hash =
      mix_hash(mix_hash(frame.name, frame.file), static_cast<uint64_t>(static_cast<uint32_t>(frame.line)));
  const uint32_t found = frame_index_.find(hash, [&](uint32_t id) { return frames_[id] == frame; });
  if (found != HashIndex::kAbsent) return found;
  frames_.push_back(frame);
  frame_index_.insert(hash, static_cast<uint32_t>(frames_.size() - 1));
  return static_cast<uint32_t>(frames_.size() - 1);
}

uint32_t StackTable::intern(std::span<const uint32_t> frame_ids) {
  if (frame_ids.empty()) return 0;
  const uint64_t hash = hash_of(frame_ids);
  const uint32_t found = stack_index_.find(hash, [&](uint32_t stack) {
    const auto known = frames(stack);
    return std::equal(known.begin(), known.end(), frame_ids.begin(), frame_ids.end());
  });
  if (found != HashIndex::kAbsent) return found;
  const auto stack = static_cast<uint32_t>(size());
  frame_ids_.insert(frame_ids_.end(), frame_ids.begin(), frame_ids.end());
  first_.push_back(frame_ids_.size());
  stack_index_.insert(hash, stack);
  return stack;
}

}  // namespace plimsoll::explain
