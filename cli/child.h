// A command run to its end, its standard error both shown and kept, for verbs that explain how it ended.
#pragma once

#include <fmt/format.h>
#include <poll.h>
#include <pty.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstring>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include "plimsoll/base/error.h"

namespace plimsoll::cli {

struct ChildOptions {
  std::vector<std::string> command;
  std::map<std::string, std::string> environment;  // beside what is there already
  bool stdout_to_stderr = false;
};

struct ChildResult {
  int status = 0;                  // as a shell gives it: 128 + the signal when one ended it
  int signal = 0;                  // that ended it
  std::string errors;              // the last of its standard error
  int64_t max_resident_bytes = 0;  // of the largest process among it and its children
};

namespace detail {

constexpr size_t kMostErrors = size_t{4} << 20;
inline volatile std::sig_atomic_t child_pid = 0;

inline void forward_signal(int signal) {
  if (child_pid > 0) kill(child_pid, signal);
}

// Standard error's other end: a terminal's where ours is one, so that progress bars stay what they are.
struct Tee {
  int ours = -1;
  int theirs = -1;

  Tee() {
    if (isatty(STDERR_FILENO) != 0 && openpty(&ours, &theirs, nullptr, nullptr, nullptr) == 0) return;
    int ends[2] = {-1, -1};
    if (pipe(ends) != 0) throw SystemError::from_errno("pipe", errno);
    ours = ends[0];
    theirs = ends[1];
  }
  ~Tee() {
    close(ours);
    if (theirs >= 0) close(theirs);
  }
  Tee(const Tee&) = delete;
  Tee& operator=(const Tee&) = delete;

  void close_theirs() {
    close(theirs);
    theirs = -1;
  }
  // What has come within `timeout_ms`; false at the end.
  bool pass_on(int timeout_ms, std::string& kept) const {
    pollfd wanted{ours, POLLIN, 0};
    if (poll(&wanted, 1, timeout_ms) <= 0) return true;
    char buffer[16384];
    const ssize_t got = read(ours, buffer, sizeof buffer);
    if (got <= 0) return got < 0 && (errno == EINTR || errno == EAGAIN);
    for (ssize_t done = 0; done < got;) {
      const ssize_t written = write(STDERR_FILENO, buffer + done, static_cast<size_t>(got - done));
      if (written < 0 && errno != EINTR) break;
      if (written > 0) done += written;
    }
    kept.append(buffer, static_cast<size_t>(got));
    if (kept.size() > 2 * kMostErrors) kept.erase(0, kept.size() - kMostErrors);
    return true;
  }
  bool has_more() const {
    pollfd wanted{ours, POLLIN, 0};
    return poll(&wanted, 1, 0) > 0 && (wanted.revents & POLLIN) != 0;
  }
};

[[noreturn]] inline void become(const ChildOptions& options, const Tee& tee) {
  std::signal(SIGXFSZ, SIG_DFL);  // which this program ignores, and the command would inherit
  for (const auto& [name, value] : options.environment) setenv(name.c_str(), value.c_str(), 1);
  dup2(tee.theirs, STDERR_FILENO);
  if (options.stdout_to_stderr) dup2(tee.theirs, STDOUT_FILENO);
  close(tee.ours);
  close(tee.theirs);
  std::vector<char*> arguments;
  for (const std::string& argument : options.command) arguments.push_back(const_cast<char*>(argument.c_str()));
  arguments.push_back(nullptr);
  execvp(arguments[0], arguments.data());
  const int error = errno;
  dprintf(STDERR_FILENO, "plimsoll: %s cannot be run: %s\n", arguments[0], std::strerror(error));
  _exit(error == ENOENT ? 127 : 126);
}

}  // namespace detail

// SystemError when no process can be started; a command that is not there ends with 127, as in a shell.
inline ChildResult run_child(const ChildOptions& options) {
  detail::Tee tee;
  const pid_t pid = fork();
  if (pid < 0) throw SystemError::from_errno("fork", errno);
  if (pid == 0) detail::become(options, tee);
  tee.close_theirs();
  detail::child_pid = pid;
  // A terminal sends its signals to the command as well; what is sent to us alone is passed on.
  std::signal(SIGINT, SIG_IGN);
  for (const int signal : {SIGTERM, SIGHUP, SIGUSR1, SIGUSR2}) std::signal(signal, detail::forward_signal);
  ChildResult result;
  int status = 0;
  bool open = true;
  while (waitpid(pid, &status, WNOHANG) == 0) {
    if (open) {
      open = tee.pass_on(20, result.errors);
    } else {
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
  }
  detail::child_pid = 0;
  while (open && tee.has_more()) open = tee.pass_on(0, result.errors);  // not what its children may still write
  result.signal = WIFSIGNALED(status) ? WTERMSIG(status) : 0;
  result.status = result.signal != 0 ? 128 + result.signal : WEXITSTATUS(status);
  rusage usage{};
  getrusage(RUSAGE_CHILDREN, &usage);
  result.max_resident_bytes = usage.ru_maxrss * 1024;
  return result;
}

}  // namespace plimsoll::cli
