#include "plimsoll/train/timer.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <chrono>
#include <ctime>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>

namespace plimsoll::train {
namespace {

constexpr double kQuietShare = 0.05;  // of the time, that may be waited for
constexpr double kQuietS = 20e-6;     // or so much in all

double wall_s() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

double thread_s() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) / 1e9;
}

int64_t preemptions() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return usage.ru_nivcsw;
}

// The second number of a thread's schedstat: nanoseconds for which it could have run and did not.
std::optional<double> waited_of(const std::string& thread) {
  const int file = open(("/proc/self/task/" + thread + "/schedstat").c_str(), O_RDONLY | O_CLOEXEC);
  if (file < 0) return std::nullopt;
  std::array<char, 96> text{};
  const ssize_t got = read(file, text.data(), text.size());
  close(file);
  if (got <= 0) return std::nullopt;
  const char* end = text.data() + got;
  const char* second = std::find(std::as_const(text).data(), end, ' ');
  int64_t nanoseconds = 0;
  if (second == end || std::from_chars(second + 1, end, nanoseconds).ec != std::errc()) return std::nullopt;
  return static_cast<double>(nanoseconds) / 1e9;
}

// By thread; empty where the system does not tell.
std::map<std::string, double> waited_by_thread() {
  std::map<std::string, double> waited;
  const std::unique_ptr<DIR, int (*)(DIR*)> folder(opendir("/proc/self/task"), closedir);
  if (!folder) return waited;
  while (const dirent* entry = readdir(folder.get())) {
    const std::string thread = entry->d_name;
    if (thread.starts_with(".")) continue;
    if (const auto seconds = waited_of(thread)) waited[thread] = *seconds;
  }
  return waited;
}

double most_waited(const std::map<std::string, double>& before, const std::map<std::string, double>& after) {
  double most = 0;
  for (const auto& [thread, seconds] : after) {
    const auto found = before.find(thread);
    most = std::max(most, seconds - (found == before.end() ? 0 : found->second));
  }
  return most;
}

}  // namespace

double Timed::alone_s(int threads) const { return threads == 1 ? thread_s : std::max(0.0, wall_s - waited_s); }

bool Timed::is_quiet() const { return waited_s <= std::max(kQuietS, kQuietShare * wall_s); }

Timed time_on_machine(const std::function<void()>& task) {
  const auto waited = waited_by_thread();
  const int64_t preempted = preemptions();
  const double thread_start = thread_s();
  const double start = wall_s();
  task();
  Timed timed{.wall_s = wall_s() - start, .thread_s = thread_s() - thread_start};
  if (!waited.empty()) {
    timed.waited_s = std::min(timed.wall_s, most_waited(waited, waited_by_thread()));
  } else if (preemptions() > preempted) {
    timed.waited_s = std::max(0.0, timed.wall_s - timed.thread_s);
  }
  return timed;
}

}  // namespace plimsoll::train
