// The runs of the complete search, one after the other: which strategy, in which order, for how many nodes. Search
// times have heavy tails, so many short runs in different orders beat one long one; runs grow slowly, so that in the
// end one of them is long enough to be complete.
#pragma once

#include <cstdint>
#include <vector>

#include "plimsoll/pack/instance.h"
#include "plimsoll/pack/search.h"

namespace plimsoll::pack {

struct Run {
  Strategy strategy = Strategy::lowest;
  std::vector<int32_t> ranks;
  int64_t nodes = 0;
};

class Portfolio {
 public:
  Portfolio(const Instance& instance, uint64_t seed);

  // The k-th run, a function of the instance, the seed and the arguments alone. When `proving`, one way grows fast, to
  // end proofs that no short run can. The first runs of seed 1 take the orders as they are; those of any other seed
  // have noise on them, and begin with another way.
  Run run(int64_t k, bool proving) const;

 private:
  double key(int32_t buffer, char criterion) const;
  std::vector<int32_t> ranks(const char* criteria, int64_t k) const;

  const Instance& instance_;
  uint64_t seed_;
  std::vector<int64_t> crowds_;
};

}  // namespace plimsoll::pack
