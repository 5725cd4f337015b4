#include "plimsoll/memory/placement_history.h"

namespace plimsoll {
namespace {

uint64_t mix(uint64_t hash, uint64_t value) {
  hash = (hash ^ value) * 0x9E3779B97F4A7C15u;
  return hash ^ (hash >> 29);
}

}  // namespace

// The slot that holds `key`, else an empty one, else the one not used for longest, among a few neighbours.
PlacementHistory::Entry& PlacementHistory::slot_for(uint64_t key) {
  constexpr uint32_t kNeighbours = 4;
  Entry* oldest = nullptr;
  for (uint32_t i = 0; i < kNeighbours; ++i) {
    Entry& entry = entries_[(key + i) & (entries_.size() - 1)];
    if (entry.key == key && entry.serial != 0) return entry;
    if (oldest == nullptr || entry.serial < oldest->serial) oldest = &entry;
  }
  return *oldest;
}

void PlacementHistory::grow() {
  std::vector<Entry> old(entries_.empty() ? kFirstSlots : entries_.size() * 4);
  old.swap(entries_);
  for (const Entry& entry : old) {
    if (entry.serial != 0) slot_for(entry.key) = entry;
  }
}

PlacementHistory::Lookup PlacementHistory::look_up(int64_t size, int64_t live) {
  if (used_ * 2 >= entries_.size() && entries_.size() < kMostSlots) grow();
  return {*this, mix(mix(mix(0, static_cast<uint64_t>(size)), static_cast<uint64_t>(live)),
                     static_cast<uint64_t>(previous_size_))};
}

std::optional<HeapPlace> PlacementHistory::Lookup::next() {
  constexpr int kMostPlaces = 32;
  while (places_++ < kMostPlaces) {
    const Entry& entry = memory_.slot_for(key_);
    if (entry.key != key_ || entry.serial == 0) return std::nullopt;
    offered_ = key_;
    key_ = mix(key_, 1);
    if (!entry.alive) return HeapPlace{entry.offset, entry.alias};
    alive_age_ = memory_.serial_ + 1 - entry.serial;
  }
  return std::nullopt;
}

PlacementHistory::Ticket PlacementHistory::remember(const Lookup& look_up, int64_t size, HeapPlace place,
                                                    bool found_before) {
  previous_size_ = size;
  const uint64_t key = found_before ? look_up.offered_ : look_up.key_;
  Entry& entry = slot_for(key);
  if (entry.serial == 0) ++used_;
  entry = {key, place.offset, place.alias, true, ++serial_};
  return {key, serial_};
}

void PlacementHistory::freed(const Ticket& ticket) {
  Entry& entry = slot_for(ticket.key);
  if (entry.serial == ticket.serial) entry.alive = false;
}

}  // namespace plimsoll
