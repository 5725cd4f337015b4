// Ranks that are threads of one process: for tests, and as the referee of other communicators. Sums go from rank 0 to
// the last. Ranks that call different collectives, or with different sizes, all get a RankError that says so; so do
// those that wait for a rank that failed or is late.
#pragma once

#include <functional>
#include <memory>

#include "plimsoll/device/communicator.h"

namespace plimsoll::device {

struct ThreadRanksOptions {
  double timeout_s = 10;  // that a rank waits for the others
  // Called by each rank before its collective number `call`, counted from 0: may sleep, or throw what that rank fails
  // with.
  std::function<void(int rank, int64_t call)> before = {};
};

class ThreadRanks {
 public:
  explicit ThreadRanks(int ranks, ThreadRanksOptions options = {});
  ~ThreadRanks();

  // For the thread of this rank.
  std::shared_ptr<Communicator> rank(int rank) const;

  // Calls f(communicator) on a thread for each rank, and waits for all. What a rank throws aborts the others; the first
  // exception that is not the consequence of another rank's is thrown on.
  void run(const std::function<void(const std::shared_ptr<Communicator>&)>& f) const;

 private:
  struct Group;
  class Member;
  std::shared_ptr<Group> group_;
};

}  // namespace plimsoll::device
