#include "cli/console.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <nlohmann/json.hpp>
#include <system_error>

#include "plimsoll/report/terminal.h"

namespace plimsoll::cli {
namespace {

constexpr std::string_view kErase = "\r\x1b[K";

volatile std::sig_atomic_t progress_is_shown = 0;
volatile std::sig_atomic_t finishes_first = 0;
volatile std::sig_atomic_t interrupted = 0;
volatile std::sig_atomic_t is_silent = 0;
volatile std::sig_atomic_t has_launcher = 0;
char signal_label[32] = "plimsoll: ";  // NOLINT(modernize-avoid-c-arrays): a signal handler reads it
int output_error = 0;                  // errno of what stdout failed with

void write_to_stderr(std::string_view text) {
  if (is_silent == 0) static_cast<void>(!write(STDERR_FILENO, text.data(), text.size()));
}

// Only calls that a signal handler may make, here and in end_by.
void tell_of_signal(const char* what) {
  static_cast<void>(!write(STDERR_FILENO, signal_label, std::strlen(signal_label)));
  static_cast<void>(!write(STDERR_FILENO, what, std::strlen(what)));
}

// A launcher signals all ranks when one has failed: what that one said is the news.
void end_by(int signal, siginfo_t* info, void* /*context*/) {
  const bool is_of_launcher = has_launcher != 0 && info->si_pid == getppid();
  const bool tells = is_silent == 0 || !is_of_launcher;
  if (progress_is_shown != 0) write_to_stderr(kErase);
  const bool ends_now = finishes_first == 0 || interrupted != 0;
  if (tells && is_of_launcher) {
    tell_of_signal("its launcher ends it\n");  // where another rank has failed, at once
  } else if (tells && !ends_now) {
    // Ranks wait for each other within a step, so that none gives it up.
    tell_of_signal(has_launcher != 0
                       ? "stops after this step, with a checkpoint; once more ends it at once\n"
                       : "stops after this step or micro-batch, with a checkpoint; once more ends it at once\n");
  } else if (tells) {
    tell_of_signal(signal == SIGINT ? "interrupted (SIGINT)\n" : "terminated (SIGTERM)\n");
  }
  if (!ends_now) {
    interrupted = signal;
    return;
  }
  std::signal(signal, SIG_DFL);
  raise(signal);
}

// What whoever started us ignores, as nohup does, stays ignored.
void watch(int signal) {
  struct sigaction action {};
  if (sigaction(signal, nullptr, &action) != 0 || action.sa_handler == SIG_IGN) return;
  action = {};
  action.sa_sigaction = end_by;
  action.sa_flags = SA_RESTART | SA_SIGINFO;
  sigaction(signal, &action, nullptr);
}

}  // namespace

void start_console() {
  for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; ++fd) {
    if (fcntl(fd, F_GETFD) != -1 || errno != EBADF) continue;
    if (open("/dev/null", O_RDWR) != fd) std::abort();  // the first that is free
  }
  watch(SIGINT);
  watch(SIGTERM);
  std::signal(SIGXFSZ, SIG_IGN);
}

void finish_on_interrupt() { finishes_first = 1; }
int interrupting_signal() { return interrupted; }

void set_rank_of_console(int rank) {
  fmt::format_to_n(signal_label, sizeof signal_label - 1, "plimsoll: rank {}: ", rank);
  has_launcher = 1;
  is_silent = rank == 0 ? 0 : 1;
}

bool finish_console() {
  erase_progress();
  if (std::fflush(stdout) != 0) note_output_error(errno);
  if (std::ferror(stdout) == 0) return true;
  tell("plimsoll: writing to standard output failed: {}\n", std::generic_category().message(output_error));
  return false;
}

void note_output_error(int error) {
  if (output_error == 0) output_error = error;
}

bool shows_progress() {
  if (is_silent != 0) return false;
  static const bool shows = [] {
    const char* terminal = std::getenv("TERM");
    return isatty(STDERR_FILENO) != 0 && (terminal == nullptr || std::string_view(terminal) != "dumb");
  }();
  return shows;
}

void show_progress(std::string_view line) {
  if (!shows_progress()) return;
  progress_is_shown = 1;
  // One line: a second one could not be erased.
  const std::string shown = report::has_utf8() ? std::string(line) : report::to_ascii(line);
  write_to_stderr(fmt::format("{}{}", kErase, shown.substr(0, static_cast<size_t>(report::columns_of_terminal()) - 1)));
}

void erase_progress() {
  if (progress_is_shown == 0) return;
  progress_is_shown = 0;
  write_to_stderr(kErase);
}

void print(std::string_view text) {
  if (is_silent != 0) return;
  static const int columns = report::columns_of_terminal();
  static const bool utf8 = report::has_utf8();
  erase_progress();
  const std::string folded = report::fold_lines(utf8 ? std::string(text) : report::to_ascii(text), columns);
  if (std::fwrite(folded.data(), 1, folded.size(), stdout) != folded.size()) note_output_error(errno);
}

bool uses_colour() { return isatty(STDOUT_FILENO) != 0 && report::allows_colour(); }

void tell(std::string_view text) {
  if (is_silent != 0) return;
  erase_progress();
  write_to_stderr(text);
}

void write_errors(std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t written = write(STDERR_FILENO, bytes.data(), bytes.size());
    if (written < 0 && errno != EINTR) return;
    if (written > 0) bytes.remove_prefix(static_cast<size_t>(written));
  }
}

void print_json(const nlohmann::ordered_json& json, int indent) {
  if (is_silent != 0) return;
  erase_progress();
  std::string text = json.dump(indent, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
  text += '\n';
  if (std::fwrite(text.data(), 1, text.size(), stdout) != text.size()) note_output_error(errno);
}

}  // namespace plimsoll::cli
