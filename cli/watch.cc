#include <fmt/format.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstring>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "cli/console.h"
#include "cli/verbs.h"
#include "plimsoll/base/bytes.h"
#include "plimsoll/base/error.h"
#include "plimsoll/report/terminal.h"
#include "plimsoll/report/watch_view.h"

namespace plimsoll::cli {
namespace {

using Clock = std::chrono::steady_clock;

struct Options {
  std::vector<std::string> words;  // a process id, or a command
  double interval = 1;
  bool once = false;
  bool json = false;
};

volatile std::sig_atomic_t watched_child = 0;

void pass_on(int signal) {
  if (watched_child > 0) kill(watched_child, signal);
}

bool is_number(const std::string& text) {
  return !text.empty() && text.size() < 10 && text.find_first_not_of("0123456789") == std::string::npos;
}

std::string joined(const std::vector<std::string>& words) {
  std::string text;
  for (const std::string& word : words) text += (text.empty() ? "" : " ") + word;
  return text;
}

// Takes readings, keeps their history and shows them: a block at the bottom of a terminal, else lines.
class Watcher {
 public:
  Watcher(const Options& options, pid_t pid, std::string subject)
      : options_(options), pid_(pid), subject_(std::move(subject)), start_(Clock::now()) {}

  // False when the process is gone.
  bool read() {
    report::WatchReading reading{.seconds = seconds(), .subject = subject_};
    if (pid_ > 0) reading.tree = tree_memory(pid_);
    if (pid_ > 0 && reading.tree.rss_bytes == 0) return false;
    reading.limit = limit_use(pid_ > 0 ? pid_ : getpid());
    reading.cards = cuda::card_memory();
    trend_.add(reading.seconds, reading.limit.used_bytes);
    reading.bytes_per_second = trend_.bytes_per_second();
    reading.seconds_left = trend_.seconds_until(reading.limit.limit_bytes);
    peak_rss_bytes_ = std::max(peak_rss_bytes_, reading.tree.rss_bytes);
    peak_pss_bytes_ = std::max(peak_pss_bytes_, reading.tree.pss_bytes);
    const int64_t held = std::max(reading.tree.pss_bytes, pid_ > 0 ? int64_t{0} : reading.limit.used_bytes);
    history_.push_back(held > 0 ? held : reading.tree.rss_bytes);
    if (history_.size() > kMostHistory) history_.erase(history_.begin());
    show(reading);
    return true;
  }

  // Takes the block away, for text that goes above it.
  void erase() {
    for (; shown_ > 0; --shown_) tell("\x1b[1A\x1b[2K");
  }

  double seconds() const { return std::chrono::duration<double>(Clock::now() - start_).count(); }
  int64_t peak_rss_bytes() const { return peak_rss_bytes_; }
  int64_t peak_pss_bytes() const { return peak_pss_bytes_; }

 private:
  static constexpr size_t kMostHistory = 4096;

  void show(const report::WatchReading& reading) {
    if (options_.json) {
      print_json(report::watch_json(reading), -1);
      std::fflush(stdout);
    } else if (shows_progress() && !options_.once) {
      erase();
      const auto lines = report::watch_view(reading, history_, report::columns_of_terminal(), report::allows_colour());
      for (const std::string& line : lines) tell("{}\n", report::has_utf8() ? line : report::to_ascii(line));
      shown_ = static_cast<int>(lines.size());
    } else if (options_.words.empty() || is_number(options_.words[0])) {
      print("{}\n", report::watch_line(reading));
      std::fflush(stdout);
    } else {  // stdout is the command's
      tell("{}\n", report::watch_line(reading));
    }
  }

  const Options& options_;
  pid_t pid_;  // 0: the machine
  std::string subject_;
  Clock::time_point start_;
  Trend trend_;
  std::vector<int64_t> history_;
  int64_t peak_rss_bytes_ = 0;
  int64_t peak_pss_bytes_ = 0;
  int shown_ = 0;  // lines of the block
};

int watch_process(const Options& options, pid_t pid) {
  Watcher watcher(options, pid, pid > 0 ? fmt::format("process {}", pid) : "this machine");
  if (pid > 0 && kill(pid, 0) != 0 && errno == ESRCH) throw ArgumentError(fmt::format("there is no process {}", pid));
  while (watcher.read() && !options.once) std::this_thread::sleep_for(std::chrono::duration<double>(options.interval));
  return kDone;
}

[[noreturn]] void become(const std::vector<std::string>& command, int output, bool json) {
  std::signal(SIGXFSZ, SIG_DFL);  // which this program ignores, and the command would inherit
  if (output >= 0) {
    dup2(output, STDOUT_FILENO);
    dup2(output, STDERR_FILENO);
  } else if (json) {
    dup2(STDERR_FILENO, STDOUT_FILENO);
  }
  std::vector<char*> words;
  for (const std::string& word : command) words.push_back(const_cast<char*>(word.c_str()));
  words.push_back(nullptr);
  execvp(words[0], words.data());
  const int error = errno;
  dprintf(STDERR_FILENO, "plimsoll: %s cannot be run: %s\n", words[0], std::strerror(error));
  _exit(error == ENOENT ? 127 : 126);
}

// What the command prints, for the time of a poll; above the block, which is not there meanwhile.
void pass_output(Watcher& watcher, int from, int timeout_ms) {
  pollfd wanted{from, POLLIN, 0};
  if (poll(&wanted, 1, timeout_ms) <= 0 || (wanted.revents & POLLIN) == 0) {
    if ((wanted.revents & POLLHUP) != 0) std::this_thread::sleep_for(std::chrono::milliseconds(timeout_ms));
    return;
  }
  char buffer[16384];
  const ssize_t got = ::read(from, buffer, sizeof buffer);
  if (got <= 0) return;
  watcher.erase();
  tell(std::string_view(buffer, static_cast<size_t>(got)));
  if (buffer[got - 1] != '\n') tell("\n");  // or the block would stand beside it
}

// On a terminal the command's output comes through us, so that the block stays below it.
int watch_command(const Options& options) {
  int ends[2] = {-1, -1};
  const bool has_block = shows_progress() && !options.json && !options.once;
  if (has_block && pipe(ends) != 0) throw SystemError::from_errno("pipe", errno);
  const pid_t child = fork();
  if (child < 0) throw SystemError::from_errno("fork", errno);
  if (child == 0) {
    if (has_block) close(ends[0]);
    become(options.words, ends[1], options.json);
  }
  if (has_block) close(ends[1]);
  watched_child = child;
  std::signal(SIGINT, SIG_IGN);  // a terminal sends it to the command as well
  for (const int signal : {SIGTERM, SIGHUP, SIGUSR1, SIGUSR2}) std::signal(signal, pass_on);
  Watcher watcher(options, child, joined(options.words));
  int status = 0;
  double next = 0;
  constexpr int kPollMs = 20;
  while (waitpid(child, &status, WNOHANG) == 0) {
    if (watcher.seconds() >= next && !(options.once && next > 0)) {
      watcher.read();
      next = watcher.seconds() + (next == 0 ? std::min(0.1, options.interval) : options.interval);
    }
    has_block ? pass_output(watcher, ends[0], kPollMs)
              : std::this_thread::sleep_for(std::chrono::milliseconds(kPollMs));
  }
  watched_child = 0;
  for (pollfd more{ends[0], POLLIN, 0}; has_block && poll(&more, 1, 0) > 0 && (more.revents & POLLIN) != 0;) {
    pass_output(watcher, ends[0], 0);
  }
  watcher.erase();
  if (!options.json) {
    tell("plimsoll: {} ran {:.1f} s, at most {} RSS, {} PSS of it and its children\n", options.words[0],
         watcher.seconds(), format_bytes(watcher.peak_rss_bytes()), format_bytes(watcher.peak_pss_bytes()));
  }
  return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

int run(const Options& options) {
  if (options.words.empty()) return watch_process(options, 0);
  if (options.words.size() == 1 && is_number(options.words[0])) {
    return watch_process(options, static_cast<pid_t>(std::stol(options.words[0])));
  }
  return watch_command(options);
}

}  // namespace

void add_watch(const Command& app, int& status) {
  const Command verb = app.add_verb("watch", "Live view of the memory of a process, its limit and the GPUs");
  verb.footer(
      "Example: plimsoll watch -- python train.py\n"
      "Of a command it exits as that does; without PID and COMMAND this machine is watched.");
  const auto options = std::make_shared<Options>();
  verb.add_words("PID|COMMAND", options->words, "A process and its children, or a command to run, after --");
  verb.add_option("--interval", options->interval, "Seconds between readings").shows_default().in_range(0.01, 3600);
  verb.add_flag("--once", options->once, "One reading");
  verb.add_flag("--json", options->json, "A line of JSON for each reading; the command prints to standard error");
  verb.callback([options, &status] { status = run(*options); });
}

}  // namespace plimsoll::cli
