#include <fmt/format.h>
#include <sys/prctl.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <new>
#include <nlohmann/json.hpp>
#include <system_error>
#include <thread>

#include "cli/console.h"
#include "cli/verbs.h"
#include "plimsoll/base/error.h"
#include "plimsoll/base/oom.h"
#include "plimsoll/train/process_ranks.h"

namespace plimsoll::cli {
namespace {

// The name that the second start (spin.cc) would else lose.
void keep_name(const char* program) {
  const std::string name = std::filesystem::path(program).filename().string();
  prctl(PR_SET_NAME, name.c_str());
}

// What is printed must be out before other ranks are told to end.
void flush_output() {
  if (std::fflush(stdout) != 0) note_output_error(errno);
}

// An error of one rank is told by that rank. Others than rank 0 leave it the first word: what all of them fail with is
// told once, as the first to be told ends all.
void tell_error_of_rank(int rank, const std::string& message) {
  constexpr auto kFirstWord = std::chrono::milliseconds(500);
  std::this_thread::sleep_for(kFirstWord);
  write_errors(fmt::format("plimsoll: rank {}: {}\n", rank, message));
}

// With --json, stdout has JSON whatever happens.
void tell_error(bool json, const char* kind, int status, const std::string& message) {
  const auto& ranks = train::joined_ranks();
  if (ranks && ranks->rank() != 0) tell_error_of_rank(ranks->rank(), message);
  tell("plimsoll: {}\n", message);
  if (json) print_json({{"error", message}, {"kind", kind}, {"exit_status", status}});
  flush_output();
  train::abort_ranks(status);
}

int run(int argc, char** argv, bool json) try {
  int status = kDone;
  const std::string wrong = run_command_line(argc, argv, [&status](const Command& app) {
    for (const AddVerb add : verbs()) add(app, status);
  });
  if (wrong.empty()) return status;
  tell_error(json, "argument", kBadInput, wrong);
  return kBadInput;
} catch (const ResourceExhausted& error) {
  tell_error(json, "does_not_fit", kFinding, error.what());
  return kFinding;
} catch (const std::bad_alloc&) {
  tell_error(json, "does_not_fit", kFinding, "the system gives this process no more memory");
  return kFinding;
} catch (const ArgumentError& error) {
  tell_error(json, "argument", kBadInput, error.what());
  return kBadInput;
} catch (const InputError& error) {
  tell_error(json, "input", kBadInput, error.what());
  return kBadInput;
} catch (const UnsupportedError& error) {
  tell_error(json, "unsupported", kBadInput, error.what());
  return kBadInput;
} catch (const SystemError& error) {
  tell_error(json, "system", kBadInput, error.what());
  return kBadInput;
} catch (const std::filesystem::filesystem_error& error) {
  tell_error(json, "system", kBadInput, fmt::format("{}: {}", error.path1().string(), error.code().message()));
  return kBadInput;
} catch (const std::system_error& error) {
  if (std::ferror(stdout) != 0) {
    note_output_error(error.code().value());
    return kBadInput;
  }
  tell_error(json, "system", kBadInput, fmt::format("the system refused: {}", error.code().message()));
  return kBadInput;
} catch (const std::exception& error) {
  tell_error(json, "internal", kBadInput, error.what());
  return kBadInput;
}

}  // namespace
}  // namespace plimsoll::cli

int main(int argc, char** argv) {
  using namespace plimsoll::cli;
  keep_name(argc > 0 ? argv[0] : "plimsoll");
  start_console();
  char** const end = std::find(argv, argv + argc, std::string_view("--"));  // what follows is another program's
  const bool json = std::find(argv, end, std::string_view("--json")) != end;
  const int status = run(argc, argv, json);
  flush_output();
  plimsoll::train::leave_ranks();
  return finish_console() ? status : kBadInput;
}
