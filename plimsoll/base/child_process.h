// A command run to its end, its standard error both passed on and kept, for those who explain how it ended.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace plimsoll {

struct ChildOptions {
  std::vector<std::string> command;
  std::map<std::string, std::string> environment;  // beside what is there already
  bool stdout_to_stderr = false;
  bool on_terminal = false;                                  // its standard error is a terminal of its own
  std::function<void(std::string_view)> on_error_text = {};  // given what it writes to standard error
};

struct ChildResult {
  int status = 0;                  // as a shell gives it: 128 + the signal when one ended it
  int signal = 0;                  // that ended it
  std::string errors;              // the last of its standard error
  int64_t max_resident_bytes = 0;  // of the largest process among it and its children
};

// While the command runs, SIGTERM, SIGHUP, SIGUSR1 and SIGUSR2 are passed on to it and SIGINT, which a terminal sends
// to it as well, is ignored; then they do again what they did before. One command at a time. SystemError when no
// process can be started; a command that is not there ends with 127, as in a shell.
ChildResult run_child(const ChildOptions& options);

}  // namespace plimsoll
