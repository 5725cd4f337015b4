#include "cli/page_options.h"

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <filesystem>

#include "cli/console.h"
#include "plimsoll/base/error.h"
#include "plimsoll/base/file.h"

namespace plimsoll::cli {
namespace {

std::string temporary_page() {
  std::string path = (std::filesystem::temp_directory_path() / "plimsoll-XXXXXX.html").string();
  const int file = mkstemps(path.data(), 5);
  if (file < 0) throw SystemError::from_errno("making a file " + path, errno);
  close(file);
  return path;
}

// By xdg-open, which knows the user's browser. Where that does not work the path is told.
void open_in_browser(const std::string& path) {
  const std::string absolute = std::filesystem::absolute(path).string();
  std::string program = "xdg-open";
  std::string argument = absolute;
  char* const arguments[] = {program.data(), argument.data(), nullptr};
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
  posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
  pid_t child = 0;
  const int failed = posix_spawnp(&child, program.c_str(), &actions, nullptr, arguments, environ);
  posix_spawn_file_actions_destroy(&actions);
  int status = 0;
  const bool opened =
      failed == 0 && waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0;
  if (opened) {
    tell("page: {}\n", absolute);
  } else {
    tell("page: {} (no browser could be started; open it in one)\n", absolute);
  }
}

}  // namespace

void add_page_options(const Command& verb, PageOptions& options) {
  verb.add_option("--html", options.html, "Write a page for a browser: timeline, what-if, flame graph, memory map");
  verb.add_flag("--open", options.open, "Open the page in a browser; without --html it is a temporary file");
  verb.add_option("--chrome-trace", options.chrome_trace, "Write the history for Perfetto or chrome://tracing");
}

void require_page(const PageOptions& options) {
  if (options.wants_page() && !report::has_page()) report::html({});
}

void write_page(const PageOptions& options, const std::function<report::Page()>& make) {
  if (!options.wants_page()) return;
  require_page(options);
  if (shows_progress()) show_progress("making the page");
  const std::string text = report::html(make());
  erase_progress();
  const std::string path = options.html.empty() ? temporary_page() : options.html;
  write_file(path, text);
  if (options.open) open_in_browser(path);
}

}  // namespace plimsoll::cli
