#include "plimsoll/run/eager/eviction.h"

#include <algorithm>
#include <cmath>
#include <unordered_map>

#include "plimsoll/base/error.h"

namespace plimsoll::eager {

// Storages that only tapes hold, with the price of each: seconds to make it again, for a byte and an op of idleness.
std::vector<Evictor::Candidate> Evictor::candidates() const {
  std::unordered_map<Storage*, Candidate> by_storage;
  for (Record* record : records_) {
    for (Record::Kept& kept : record->kept()) {
      if (!kept.data) continue;
      Candidate& candidate = by_storage[kept.data.storage.get()];
      candidate.holders.push_back(&kept);
      candidate.makers.push_back(record->maker(kept.part));
      candidate.storage = &kept.data.storage;
      candidate.last_used = record->number;
      candidate.was_read = candidate.was_read && record->was_read;
    }
  }
  const uint64_t now = records_.empty() ? 0 : (*records_.rbegin())->number + 1;
  std::vector<Candidate> found;
  for (auto& [storage, candidate] : by_storage) {
    const bool only_tapes = candidate.storage->use_count() == static_cast<int64_t>(candidate.holders.size());
    if (!only_tapes || candidate.bytes() == 0) continue;
    candidate.seconds = seconds_again(candidate);
    const double back =
        spill_store_ ? std::min(candidate.seconds, spill_store_->seconds(candidate.bytes())) : candidate.seconds;
    candidate.price = back / static_cast<double>(candidate.bytes()) / static_cast<double>(now - candidate.last_used);
    found.push_back(std::move(candidate));
  }
  std::ranges::sort(found, [](const Candidate& a, const Candidate& b) {
    return a.price != b.price ? a.price < b.price : a.last_used < b.last_used;
  });
  return found;
}

double Evictor::seconds_again(const Candidate& candidate) const {
  const bool has_makers = std::ranges::find(candidate.makers, nullptr) == candidate.makers.end();
  if (!has_makers) return HUGE_VAL;
  if (candidate.was_read) return 0;
  double seconds = 0;
  for (const Record* maker : candidate.makers) seconds = std::max(seconds, maker->seconds_again());
  return seconds;
}

int64_t Evictor::evict(int64_t bytes) {
  int64_t freed = 0;
  for (const Candidate& candidate : candidates()) {
    if (freed >= bytes) break;
    const int64_t of_this = candidate.bytes();
    if (let_go(candidate)) freed += of_this;
  }
  return freed;
}

bool Evictor::let_go(const Candidate& candidate) {
  const bool is_slow = spill_store_ && candidate.seconds > spill_store_->seconds(candidate.bytes());
  return is_slow ? spill(candidate) : drop(candidate) || spill(candidate);
}

bool Evictor::drop(const Candidate& candidate) {
  for (Record* maker : candidate.makers) {
    if (maker == nullptr || !maker->secure()) return false;
  }
  for (Record::Kept* kept : candidate.holders) kept->data.storage = nullptr;
  ++evictions_;
  return true;
}

// A disk that is full is not asked again: the request fails for want of memory.
bool Evictor::spill(const Candidate& candidate) {
  const int64_t version = (*candidate.storage)->version();
  const auto is_as_kept = [&](const Record::Kept* kept) { return kept->version == version; };
  if (!spill_store_ || !std::ranges::all_of(candidate.holders, is_as_kept)) return false;
  try {
    const std::shared_ptr<SpilledBlock> spilled = spill_store_->put(**candidate.storage);
    for (Record::Kept* kept : candidate.holders) {
      kept->spilled = spilled;
      kept->data.storage = nullptr;
    }
  } catch (const SystemError&) {
    spill_store_ = nullptr;
    return false;
  }
  ++spills_;
  return true;
}

void Evictor::restore_all(Engine& engine) {
  std::vector<Data> restored;  // held, so that making room for one does not evict another
  for (Record* record : records_) {
    for (const Record::Kept& kept : record->kept()) {
      if (!kept.data && !kept.spilled) restored.push_back(record->part(engine, kept.part));
    }
  }
  for (Record* record : records_) record->unsecure();
}

}  // namespace plimsoll::eager
