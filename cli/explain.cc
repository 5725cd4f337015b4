#include "plimsoll/explain/explain.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "cli/console.h"
#include "cli/verbs.h"
#include "plimsoll/base/error.h"
#include "plimsoll/base/file.h"
#include "plimsoll/report/chrome_trace.h"
#include "plimsoll/report/explanation.h"
#include "plimsoll/report/html_page.h"

namespace plimsoll::cli {
namespace {

struct Options {
  std::vector<std::string> files;
  std::string html;
  std::string chrome_trace;
  bool json = false;
  bool full = false;
};

bool is_finding(const explain::Explanation& explanation) {
  return std::any_of(explanation.diagnoses.begin(), explanation.diagnoses.end(),
                     [](const explain::Diagnosis& diagnosis) { return diagnosis.cause != explain::Cause::healthy; });
}

explain::Explanation explain_files(const Options& options, const explain::Input& input) {
  if (options.files.size() == 1) return explain::explain(input, options.files[0]);
  return explain::explain_growth(input, explain::read_input(options.files[1]));
}

void write_files(const Options& options, const explain::Input& input, const explain::Explanation& explanation) {
  if (!options.html.empty()) write_file(options.html, report::html_page(explanation, input));
  if (options.chrome_trace.empty()) return;
  if (input.kind == explain::InputKind::log)
    throw ArgumentError("--chrome-trace needs a history: a snapshot or a trace");
  write_file(options.chrome_trace, report::chrome_trace(input.snapshot));
}

int run(const Options& options) {
  const explain::Input input = explain::read_input(options.files[0]);
  const explain::Explanation explanation = explain_files(options, input);
  write_files(options, input, explanation);
  if (options.json) {
    fmt::print("{}\n", report::explanation_json(explanation));
  } else {
    print("{}", report::explanation_text(explanation, {options.full, uses_colour()}));
  }
  return is_finding(explanation) ? kFinding : kDone;
}

}  // namespace

void add_explain(const Command& app, int& status) {
  const Command verb = app.add_verb("explain", "Why memory ran out: of a snapshot, a log or a trace");
  verb.footer(
      "Example: plimsoll explain oom.pickle --html oom.html\nExit status 1 when something ran out, 0 when not.");
  const auto options = std::make_shared<Options>();
  verb.add_option(
          "FILE", options->files,
          "A PyTorch snapshot, a log of any framework, a trace, or - for standard input; of two snapshots, what grew")
      .required()
      .expects(1, 2);
  verb.add_flag("--json", options->json, "Print JSON");
  verb.add_option("--html", options->html, "Write a page with the timeline and the segments, for a browser");
  verb.add_option("--chrome-trace", options->chrome_trace, "Write the history for Perfetto or chrome://tracing");
  verb.add_flag("--full", options->full, "Everything, with whole stacks");
  verb.callback([options, &status] { status = run(*options); });
}

}  // namespace plimsoll::cli
