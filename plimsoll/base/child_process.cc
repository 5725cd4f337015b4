#include "plimsoll/base/child_process.h"

#include <poll.h>
#include <pty.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <thread>

#include "plimsoll/base/error.h"

namespace plimsoll {
namespace {

constexpr size_t kMostErrors = size_t{4} << 20;
volatile std::sig_atomic_t child_pid = 0;

void forward_signal(int signal) {
  if (child_pid > 0) kill(child_pid, signal);
}

// Standard error's two ends: a terminal's where that is asked for, so that progress bars stay what they are.
struct Tee {
  int ours = -1;
  int theirs = -1;

  explicit Tee(bool on_terminal) {
    if (on_terminal && openpty(&ours, &theirs, nullptr, nullptr, nullptr) == 0) return;
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
  bool pass_on(int timeout_ms, const std::function<void(std::string_view)>& pass, std::string& kept) const {
    pollfd wanted{ours, POLLIN, 0};
    if (poll(&wanted, 1, timeout_ms) <= 0) return true;
    char buffer[16384];
    const ssize_t got = read(ours, buffer, sizeof buffer);
    if (got <= 0) return got < 0 && (errno == EINTR || errno == EAGAIN);
    if (pass) pass({buffer, static_cast<size_t>(got)});
    kept.append(buffer, static_cast<size_t>(got));
    if (kept.size() > 2 * kMostErrors) kept.erase(0, kept.size() - kMostErrors);
    return true;
  }
  bool has_more() const {
    pollfd wanted{ours, POLLIN, 0};
    return poll(&wanted, 1, 0) > 0 && (wanted.revents & POLLIN) != 0;
  }
};

[[noreturn]] void become(const ChildOptions& options, const Tee& tee) {
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

// Handlers of signals for as long as it lives.
class Forwarding {
 public:
  explicit Forwarding(pid_t pid) {
    child_pid = pid;
    for (size_t i = 0; i < kSignals.size(); ++i) {
      struct sigaction action {};
      action.sa_handler = kSignals[i] == SIGINT ? SIG_IGN : forward_signal;
      action.sa_flags = SA_RESTART;
      sigaction(kSignals[i], &action, &before_[i]);
    }
  }
  ~Forwarding() {
    child_pid = 0;
    for (size_t i = 0; i < kSignals.size(); ++i) sigaction(kSignals[i], &before_[i], nullptr);
  }
  Forwarding(const Forwarding&) = delete;
  Forwarding& operator=(const Forwarding&) = delete;

 private:
  static constexpr std::array kSignals = {SIGINT, SIGTERM, SIGHUP, SIGUSR1, SIGUSR2};
  std::array<struct sigaction, kSignals.size()> before_ = {};
};

}  // namespace

ChildResult run_child(const ChildOptions& options) {
  Tee tee(options.on_terminal);
  const pid_t pid = fork();
  if (pid < 0) throw SystemError::from_errno("fork", errno);
  if (pid == 0) become(options, tee);
  tee.close_theirs();
  const Forwarding forwarding(pid);
  ChildResult result;
  int status = 0;
  bool open = true;
  while (waitpid(pid, &status, WNOHANG) == 0) {
    if (open) {
      open = tee.pass_on(20, options.on_error_text, result.errors);
    } else {
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
  }
  while (open && tee.has_more())
    open = tee.pass_on(0, options.on_error_text, result.errors);  // not what its children may still write
  result.signal = WIFSIGNALED(status) ? WTERMSIG(status) : 0;
  result.status = result.signal != 0 ? 128 + result.signal : WEXITSTATUS(status);
  rusage usage{};
  getrusage(RUSAGE_CHILDREN, &usage);
  result.max_resident_bytes = usage.ru_maxrss * 1024;
  return result;
}

}  // namespace plimsoll
