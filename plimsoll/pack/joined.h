// Packs what is left of an instance when matching buffers are joined (see join.h), again and again with other joins.
#pragma once

#include <cstdint>
#include <vector>

#include "plimsoll/pack/greedy.h"
#include "plimsoll/pack/improve.h"
#include "plimsoll/pack/instance.h"
#include "plimsoll/pack/join.h"

namespace plimsoll::pack {

class JoinedSearch {
 public:
  // `aim` is the peak that is hoped for, in units.
  JoinedSearch(const Instance& instance, int64_t aim, const Effort& effort);

  // Whether this should have its turn, when searches over the whole instance have taken so many nodes.
  bool due(int64_t nodes_of_others) const;

  // Varies the joins, then searches a packing of at most `capacity` units in what is left, with at most so many nodes.
  // The packing of all buffers, or none when it does not end below `limit`.
  Placement next(int64_t capacity, int64_t limit, int64_t nodes);

  int64_t nodes() const { return nodes_; }  // one for each round and each step that varied joins included

 private:
  struct Attempt {
    int64_t capacity;  // as Joins takes it
    bool loosely;
    Joins joins;
    int64_t patience;  // rounds without less being left, until all is joined anew
  };

  Attempt begin(int64_t capacity, bool loosely) const;
  void vary(Attempt& attempt, int64_t most_steps);

  const Instance& instance_;
  Effort effort_;
  std::vector<Attempt> attempts_;  // that take turns; those that joined a third of the buffers or more at once
  int64_t rounds_ = 0;
  int64_t nodes_ = 0;
  double cost_ = 0;  // of all that, in nodes of a search over the whole instance
};

}  // namespace plimsoll::pack
