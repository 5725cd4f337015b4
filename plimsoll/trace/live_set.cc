#include "plimsoll/trace/live_set.h"

#include <fmt/format.h>

#include <algorithm>

namespace plimsoll::trace {

uint32_t LiveSet::add(int64_t id) {
  uint32_t slot = slots_;
  if (free_slots_.empty()) {
    ++slots_;
  } else {
    slot = free_slots_.back();
    free_slots_.pop_back();
  }
  entry(id) = slot;
  return slot;
}

void LiveSet::remove(int64_t id) {
  free_slots_.push_back(find(id));
  if (static_cast<uint64_t>(id) < small_.size()) {
    small_[static_cast<size_t>(id)] = kNone;
  } else {
    large_.erase(id);
  }
}

uint32_t LiveSet::find_large(int64_t id) const {
  const auto found = large_.find(id);
  return found == large_.end() ? kNone : found->second;
}

uint32_t& LiveSet::entry(int64_t id) {
  constexpr size_t kStart = 1024;
  const auto index = static_cast<uint64_t>(id);
  // Doubling only: one large id in a small trace must not cost an array of its size.
  if (index >= small_.size() && index < std::max(kStart, 2 * small_.size())) widen(std::max(kStart, 2 * small_.size()));
  return index < small_.size() ? small_[index] : large_[id];
}

void LiveSet::widen(size_t size) {
  small_.resize(size, kNone);
  for (auto it = large_.begin(); it != large_.end();) {
    if (static_cast<uint64_t>(it->first) >= size) {
      ++it;
      continue;
    }
    small_[static_cast<size_t>(it->first)] = it->second;
    it = large_.erase(it);
  }
}

namespace {

std::string alloc_fault(const Event& event, bool alive) {
  if (event.bytes < 1)
    return fmt::format("id {} is allocated with {} bytes, expected 1 or more", event.id, event.bytes);
  if (alive) return fmt::format("id {} is allocated while it is alive; free it first, or use another id", event.id);
  return fmt::format("id {} is allocated with {} bytes: more than 1 EiB would be alive", event.id, event.bytes);
}

}  // namespace

std::string lifetime_fault(std::span<const Event> before, const Event& event) {
  const auto same_id = [&](const Event& other) { return other.id == event.id; };
  const auto last = std::find_if(before.rbegin(), before.rend(), same_id);
  const bool alive = last != before.rend() && last->kind == EventKind::alloc;
  if (event.kind == EventKind::alloc) return alloc_fault(event, alive);
  if (last == before.rend()) return fmt::format("id {} is freed but was never allocated", event.id);
  if (!alive) return fmt::format("id {} is freed twice", event.id);
  if (last->bytes != event.bytes) {
    return fmt::format("id {} is freed with {} bytes but was allocated with {}", event.id, event.bytes, last->bytes);
  }
  return fmt::format("id {} is freed on stream {} but was allocated on stream {}; a block goes back to its own stream",
                     event.id, event.stream, last->stream);
}

}  // namespace plimsoll::trace
