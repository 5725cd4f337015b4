// SIGINT and SIGTERM as an exception at a place that is safe: what holds files or memory is left in order. A second
// signal ends the process at once.
#pragma once

#include <csignal>

namespace plimsoll::cli {

struct Interrupted {
  int signal;
};

namespace detail {
inline volatile std::sig_atomic_t caught = 0;
inline void catch_signal(int signal) {
  caught = signal;
  std::signal(signal, SIG_DFL);
}
}  // namespace detail

inline void watch_signals() {
  for (const int signal : {SIGINT, SIGTERM}) std::signal(signal, detail::catch_signal);
}

// Throws Interrupted when a signal came.
inline void check_signals() {
  if (detail::caught != 0) throw Interrupted{detail::caught};
}

}  // namespace plimsoll::cli
