#include "plimsoll/explain/explain.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "cli/verbs.h"
#include "plimsoll/report/explanation.h"

namespace plimsoll::cli {
namespace {

struct Options {
  std::vector<std::string> files;
  bool json = false;
  bool full = false;
};

bool is_finding(const explain::Explanation& explanation) {
  return std::any_of(explanation.diagnoses.begin(), explanation.diagnoses.end(),
                     [](const explain::Diagnosis& diagnosis) { return diagnosis.cause != explain::Cause::healthy; });
}

int run(const Options& options) {
  const explain::Input input = explain::read_input(options.files[0]);
  const explain::Explanation explanation = explain::explain(input, options.files[0]);
  if (options.json) {
    fmt::print("{}\n", report::explanation_json(explanation));
  } else {
    fmt::print("{}", report::explanation_text(explanation, {options.full, isatty(STDOUT_FILENO) != 0}));
  }
  return is_finding(explanation) ? kFinding : kDone;
}

}  // namespace

void add_explain(CLI::App& app, int& status) {
  CLI::App* verb = app.add_subcommand("explain", "Why memory ran out: of a snapshot, a log or a trace");
  verb->footer(
      "Example: plimsoll explain oom.pickle --html oom.html\nExit status 1 when something ran out, 0 when not.");
  const auto options = std::make_shared<Options>();
  verb->add_option("FILE", options->files, "A PyTorch snapshot, a log of any framework, or - for standard input")
      ->required()
      ->expected(1, 2);
  verb->add_flag("--json", options->json, "Print JSON");
  verb->add_flag("--full", options->full, "Everything, with whole stacks");
  verb->callback([options, &status] { status = run(*options); });
}

}  // namespace plimsoll::cli
