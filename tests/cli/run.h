// Runs the built binary as a user would.
#pragma once

#include <fmt/format.h>
#include <sys/wait.h>

#include <cstdio>
#include <cstdlib>
#include <string>

struct Outcome {
  int status = -1;
  std::string output;  // stdout and stderr together
};

// `before` stands before the binary: "env NAME=VALUE".
inline Outcome run_cli(const std::string& arguments, const std::string& before = "") {
  Outcome outcome;
  setenv("XDG_CACHE_HOME", PLIMSOLL_BINARY ".cache", 1);  // not the user's
  std::FILE* pipe = popen(fmt::format("{} {} {} 2>&1", before, PLIMSOLL_BINARY, arguments).c_str(), "r");
  char buffer[4096];
  while (const size_t got = std::fread(buffer, 1, sizeof(buffer), pipe)) outcome.output.append(buffer, got);
  outcome.status = WEXITSTATUS(pclose(pipe));
  return outcome;
}
