#include "plimsoll/base/file_limit.h"

#include <cerrno>
#include <ctime>

namespace plimsoll {
namespace {

sigset_t file_limit_signal() {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGXFSZ);
  return set;
}

}  // namespace

HoldFileLimitSignal::HoldFileLimitSignal() {
  const sigset_t held = file_limit_signal();
  pthread_sigmask(SIG_BLOCK, &held, &before_);
}

HoldFileLimitSignal::~HoldFileLimitSignal() {
  const int error = errno;
  const sigset_t held = file_limit_signal();
  const timespec at_once{};
  if (sigismember(&before_, SIGXFSZ) == 0) {
    while (sigtimedwait(&held, nullptr, &at_once) == SIGXFSZ) continue;
  }
  pthread_sigmask(SIG_SETMASK, &before_, nullptr);
  errno = error;
}

}  // namespace plimsoll
