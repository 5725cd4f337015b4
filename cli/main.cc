#include <fmt/format.h>

#include <exception>

#include "cli/verbs.h"
#include "plimsoll/base/oom.h"

namespace plimsoll::cli {
namespace {

int run(int argc, char** argv) {
  CLI::App app("Plimsoll runs deep learning inside a memory budget: predict, plan, run, explain.", "plimsoll");
  app.set_version_flag("--version", PLIMSOLL_VERSION);
  app.require_subcommand(1);
  app.get_formatter()->column_width(34);
  int status = kDone;
  for (const AddVerb add : verbs()) add(app, status);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? kDone : kBadInput;
  }
  return status;
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
