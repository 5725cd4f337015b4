#include <fmt/format.h>

#include <exception>

#include "cli/verbs.h"
#include "plimsoll/base/oom.h"

namespace plimsoll::cli {
namespace {

int run(int argc, char** argv) {
  int status = kDone;
  const bool parsed = run_command_line(argc, argv, [&status](const Command& app) {
    for (const AddVerb add : verbs()) add(app, status);
  });
  return parsed ? status : kBadInput;
}

int fail(int status, const std::exception& error) {
  fmt::print(stderr, "plimsoll: {}\n", error.what());
  return status;
}

}  // namespace
}  // namespace plimsoll::cli

int main(int argc, char** argv) {
  using namespace plimsoll::cli;
  try {
    return run(argc, argv);
  } catch (const plimsoll::ResourceExhausted& error) {
    return fail(kFinding, error);
  } catch (const std::exception& error) {
    return fail(kBadInput, error);
  }
}
