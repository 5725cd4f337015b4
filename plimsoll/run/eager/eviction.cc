#include "plimsoll/run/eager/eviction.h"

#include <algorithm>
#include <unordered_map>

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
    const bool has_makers = std::ranges::find(candidate.makers, nullptr) == candidate.makers.end();
    if (!only_tapes || !has_makers || candidate.bytes() == 0) continue;
    double seconds = 0;
    for (const Record* maker : candidate.makers) seconds = std::max(seconds, maker->seconds_again());
    if (candidate.was_read) seconds = 0;
    candidate.price = seconds / static_cast<double>(candidate.bytes()) / static_cast<double>(now - candidate.last_used);
    found.push_back(std::move(candidate));
  }
  std::ranges::sort(found, [](const Candidate& a, const Candidate& b) {
    return a.price != b.price ? a.price < b.price : a.last_used < b.last_used;
  });
  return found;
}

int64_t Evictor::evict(int64_t bytes) {
  int64_t freed = 0;
  for (const Candidate& candidate : candidates()) {
    if (freed >= bytes) break;
    const int64_t of_this = candidate.bytes();
    if (!drop(candidate)) continue;
    freed += of_this;
    ++evictions_;
  }
  return freed;
}

bool Evictor::drop(const Candidate& candidate) {
  for (Record* maker : candidate.makers) {
    if (!maker->secure()) return false;
  }
  for (Record::Kept* kept : candidate.holders) kept->data.storage = nullptr;
  return true;
}

void Evictor::restore_all(Engine& engine) {
  std::vector<Data> restored;  // held, so that making room for one does not evict another
  for (Record* record : records_) {
    for (const Record::Kept& kept : record->kept()) {
      if (!kept.data) restored.push_back(record->part(engine, kept.part));
    }
  }
  for (Record* record : records_) record->unsecure();
}

}  // namespace plimsoll::eager
