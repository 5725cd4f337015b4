// What to let go of when a pool is short: what tapes keep and can compute again. The next to go is what costs the least
// time again for the bytes that it frees and the ops since it was last used (dynamic rematerialisation: Kirisame and
// others, "Dynamic Tensor Rematerialization", 2021). Tensors that have a handle stay.
#pragma once

#include <set>

#include "plimsoll/run/eager/record.h"

namespace plimsoll::eager {

class Evictor {
 public:
  void add(Record& record) { records_.insert(&record); }
  void remove(Record& record) { records_.erase(&record); }

  // Frees at least so many bytes if it can, and says how many. What it frees is computed again when it is read.
  int64_t evict(int64_t bytes);

  // Computes again all that is evicted: before something is overwritten that it is computed from.
  void restore_all(Engine& engine);

  int64_t evictions() const { return evictions_; }

 private:
  struct Candidate {
    std::vector<Record::Kept*> holders;
    std::vector<Record*> makers;
    std::shared_ptr<Storage>* storage = nullptr;
    uint64_t last_used = 0;
    bool was_read = true;  // by all that hold it
    double price = 0;

    int64_t bytes() const { return (*storage)->bytes(); }
  };

  std::vector<Candidate> candidates() const;
  static bool drop(const Candidate& candidate);

  struct ByNumber {
    bool operator()(const Record* a, const Record* b) const { return a->number < b->number; }
  };
  std::set<Record*, ByNumber> records_;
  int64_t evictions_ = 0;
};

}  // namespace plimsoll::eager
