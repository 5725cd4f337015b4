// Packs what is left of an instance when matching buffers are joined (see join.h), again and again with other joins.
#pragma once

#include <cstdint>
#include <optional>

#include "plimsoll/pack/greedy.h"
#include "plimsoll/pack/improve.h"
#include "plimsoll/pack/instance.h"
#include "plimsoll/pack/join.h"

namespace plimsoll::pack {

class JoinedSearch {
 public:
  JoinedSearch(const Instance& instance, const Effort& effort);

  // Whether this should have its turn, when searches over the whole instance have taken so many nodes.
  bool due(int64_t nodes_of_others) const;

  // Varies the joins, then searches a packing of at most `capacity` units in what is left. The best of all buffers, or
  // none when it does not end below `limit`.
  Placement next(int64_t capacity, int64_t limit, int64_t nodes);

  int64_t nodes() const { return nodes_; }  // steps that varied joins included

 private:
  void vary(int64_t nodes);

  const Instance& instance_;
  Effort effort_;
  std::optional<Joins> joins_;
  int64_t rounds_ = 0;
  int64_t last_success_ = 0;  // the round in which less was left than before
  int64_t nodes_ = 0;
  double cost_ = 0;  // of all that, in nodes of a search over the whole instance
};

}  // namespace plimsoll::pack
