#include "plimsoll/explain/snapshot.h"

#include <algorithm>

namespace plimsoll::explain {

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
  uint64_t hash = frame_ids.size();
  for (const uint32_t id : frame_ids) hash = hash * 0x9e3779b97f4a7c15u + id;  // a short chain: this is the hot loop
  hash = mix_hash(hash, 0);
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
