// What to let go of when a pool is short: what tapes keep and can compute again. The next to go is what costs the least
// time again for the bytes that it frees and the ops since it was last used (dynamic rematerialisation: Kirisame and
// others, "Dynamic Tensor Rematerialization", 2021). With a stash, what is faster to bring to a file and back than to
// compute again goes there, and what cannot be computed again. Tensors that have a handle stay.
#pragma once

#include <set>

#include "plimsoll/run/eager/record.h"

namespace plimsoll::eager {

class Evictor {
 public:
  void add(Record& record) { records_.insert(&record); }
  void remove(Record& record) { records_.erase(&record); }

  // Frees at least so many bytes if it can, and says how many. What it frees is computed again or fetched when it is
  // read.
  int64_t evict(int64_t bytes);

  void spill_to(std::shared_ptr<SpillStore> spill_store) { spill_store_ = std::move(spill_store); }

  // Computes again all that is evicted: before something is overwritten that it is computed from.
  void restore_all(Engine& engine);

  int64_t evictions() const { return evictions_; }
  int64_t spills() const { return spills_; }

 private:
  struct Candidate {
    std::vector<Record::Kept*> holders;
    std::vector<Record*> makers;
    std::shared_ptr<Storage>* storage = nullptr;
    uint64_t last_used = 0;
    bool was_read = true;  // by all that hold it
    double seconds = 0;    // to compute it again, infinite when that cannot be
    double price = 0;

    int64_t bytes() const { return (*storage)->bytes(); }
  };

  std::vector<Candidate> candidates() const;
  double seconds_again(const Candidate& candidate) const;
  bool let_go(const Candidate& candidate);
  bool drop(const Candidate& candidate);
  bool spill(const Candidate& candidate);

  struct ByNumber {
    bool operator()(const Record* a, const Record* b) const { return a->number < b->number; }
  };
  std::set<Record*, ByNumber> records_;
  std::shared_ptr<SpillStore> spill_store_ = nullptr;
  int64_t evictions_ = 0;
  int64_t spills_ = 0;
};

}  // namespace plimsoll::eager
