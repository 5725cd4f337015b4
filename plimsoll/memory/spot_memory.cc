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
    Moment& moment = moments_[(key + i) % kSlots];
    if (moment.key == key && moment.serial != 0) return moment;
    if (oldest == nullptr || moment.serial < oldest->serial) oldest = &moment;
  }
  return *oldest;
}

SpotMemory::Recall SpotMemory::recall(int64_t size, int64_t live) {
  constexpr int kMostAlive = 32;
  if (!moments_) moments_ = std::make_unique<Moment[]>(kSlots);
  uint64_t key =
      mix(mix(mix(0, static_cast<uint64_t>(size)), static_cast<uint64_t>(live)), static_cast<uint64_t>(previous_size_));
  Recall recall;
  for (int i = 0; i < kMostAlive; ++i, key = mix(key, 1)) {
    const Moment& moment = slot_for(key);
    recall.slot = static_cast<uint32_t>(&moment - moments_.get());
    recall.key = key;
    if (moment.key != key || moment.serial == 0) return recall;
    if (!moment.alive) {
      recall.last = &moment;
      return recall;
    }
    recall.alive_age = serial_ + 1 - moment.serial;
  }
  return recall;
}

int64_t SpotMemory::remember(const Recall& recall, int64_t size, Spot spot) {
  previous_size_ = size;
  moments_[recall.slot] = {recall.key, spot, ++serial_, true};
  return serial_;
}

void SpotMemory::freed(uint32_t slot, int64_t serial) {
  if (moments_[slot].serial == serial) moments_[slot].alive = false;
}

}  // namespace plimsoll
