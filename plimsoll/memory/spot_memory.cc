#include "plimsoll/memory/spot_memory.h"

#include <new>

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
    Moment& moment = moments_[(key + i) % kSlots];
    if (moment.key == key && moment.serial != 0) return moment;
    if (oldest == nullptr || moment.serial < oldest->serial) oldest = &moment;
  }
  return *oldest;
}

SpotMemory::Recall SpotMemory::recall(int64_t size, int64_t live) {
  if (!moments_) {
    moments_.reset(static_cast<Moment*>(std::calloc(kSlots, sizeof(Moment))));
    if (!moments_) throw std::bad_alloc();
  }
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
    if (!moment.alive) return moment.spot;
    alive_age_ = memory_.serial_ + 1 - moment.serial;
  }
  return std::nullopt;
}

SpotMemory::Ticket SpotMemory::remember(const Recall& recall, int64_t size, Spot spot, bool recalled) {
  previous_size_ = size;
  const uint64_t key = recalled ? recall.offered_ : recall.key_;
  Moment& moment = slot_for(key);
  moment = {key, spot, ++serial_, true};
  return {static_cast<uint32_t>(&moment - moments_.get()), serial_};
}

void SpotMemory::freed(const Ticket& ticket) {
  if (moments_[ticket.slot].serial == ticket.serial) moments_[ticket.slot].alive = false;
}

}  // namespace plimsoll
