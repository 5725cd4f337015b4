#include "plimsoll/memory/spot_memory.h"

namespace plimsoll {
namespace {

uint64_t mix(uint64_t hash, uint64_t value) {
  hash = (hash ^ value) * 0x9E3779B97F4A7C15u;
  return hash ^ (hash >> 29);
}

}  // namespace

// The slot that holds `key`, else an empty one, else the one not used for longest, among a few neighbours.
SpotMemory::Moment& SpotMemory::slot_for(uint64_t key) {
  constexpr uint32_t kNeighbours = 4;
  Moment* oldest = nullptr;
  for (uint32_t i = 0; i < kNeighbours; ++i) {
    Moment& moment = moments_[(key + i) & (moments_.size() - 1)];
    if (moment.key == key && moment.serial != 0) return moment;
    if (oldest == nullptr || moment.serial < oldest->serial) oldest = &moment;
  }
  return *oldest;
}

void SpotMemory::grow() {
  std::vector<Moment> old(moments_.empty() ? kFirstSlots : moments_.size() * 4);
  old.swap(moments_);
  for (const Moment& moment : old) {
    if (moment.serial != 0) slot_for(moment.key) = moment;
  }
}

SpotMemory::Recall SpotMemory::recall(int64_t size, int64_t live) {
  if (used_ * 2 >= moments_.size() && moments_.size() < kMostSlots) grow();
  return {*this, mix(mix(mix(0, static_cast<uint64_t>(size)), static_cast<uint64_t>(live)),
                     static_cast<uint64_t>(previous_size_))};
}

std::optional<Spot> SpotMemory::Recall::next() {
  constexpr int kMostSpots = 32;
  while (spots_++ < kMostSpots) {
    const Moment& moment = memory_.slot_for(key_);
    if (moment.key != key_ || moment.serial == 0) return std::nullopt;
    offered_ = key_;
    key_ = mix(key_, 1);
    if (!moment.alive) return Spot{moment.offset, moment.view};
    alive_age_ = memory_.serial_ + 1 - moment.serial;
  }
  return std::nullopt;
}

SpotMemory::Ticket SpotMemory::remember(const Recall& recall, int64_t size, Spot spot, bool recalled) {
  previous_size_ = size;
  const uint64_t key = recalled ? recall.offered_ : recall.key_;
  Moment& moment = slot_for(key);
  if (moment.serial == 0) ++used_;
  moment = {key, spot.offset, spot.view, true, ++serial_};
  return {key, serial_};
}

void SpotMemory::freed(const Ticket& ticket) {
  Moment& moment = slot_for(ticket.key);
  if (moment.serial == ticket.serial) moment.alive = false;
}

}  // namespace plimsoll
