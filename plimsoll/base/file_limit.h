// A file that would grow beyond the process's limit on file sizes (`ulimit -f`) ends the process with a signal unless
// that is held off; the call then fails with EFBIG, which can be told like a full disk. For one thread, while it lives.
#pragma once

#include <csignal>

namespace plimsoll {

class HoldFileLimitSignal {
 public:
  HoldFileLimitSignal();
  ~HoldFileLimitSignal();  // errno stays
  HoldFileLimitSignal(const HoldFileLimitSignal&) = delete;
  HoldFileLimitSignal& operator=(const HoldFileLimitSignal&) = delete;

 private:
  sigset_t before_;
};

}  // namespace plimsoll
