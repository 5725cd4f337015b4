#include "cli/script_estimate.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>

#include "cli/console.h"
#include "cli/verbs.h"
#include "plimsoll/base/child_process.h"
#include "plimsoll/base/companions.h"
#include "plimsoll/base/error.h"
#include "plimsoll/base/file.h"
#include "plimsoll/base/temporary_folder.h"
#include "plimsoll/explain/script_estimate.h"
#include "plimsoll/report/chrome_trace.h"
#include "plimsoll/report/script_estimate.h"
#include "plimsoll/trace/file.h"

namespace plimsoll::cli {
namespace {

namespace fs = std::filesystem;

std::string before(const std::string& first, const char* variable) {
  const char* const rest = std::getenv(variable);
  return rest == nullptr || *rest == '\0' ? first : first + ':' + rest;
}

std::map<std::string, std::string> environment_of(const ScriptOptions& options, const explain::Card& card,
                                                  const TemporaryFolder& folder) {
  const std::string site = (python_folder() / "plimsoll" / "torch" / "estimate_site").string();
  return {{"LD_PRELOAD", before(simulation_library().string(), "LD_PRELOAD")},
          {"PYTHONPATH", before(site, "PYTHONPATH")},
          {"PLIMSOLL_SIM_CARD", card.file.string()},
          {"PLIMSOLL_ESTIMATE_DIR", folder.path()},
          {"PLIMSOLL_ESTIMATE_STEPS", std::to_string(options.steps)},
          {"PLIMSOLL_ESTIMATE_FAKE_DATA", options.fake_data ? "1" : ""},
          {"CUDA_VISIBLE_DEVICES", "0"}};
}

// The file that the script's process left on the simulated card.
fs::path run_script(const ScriptOptions& options, const explain::Card& card, const TemporaryFolder& folder) {
  const ChildResult child = run_child({.command = options.command,
                                       .environment = environment_of(options, card, folder),
                                       .stdout_to_stderr = true,
                                       .on_terminal = isatty(STDERR_FILENO) != 0,
                                       .on_error_text = write_errors});
  if (child.status != 0) {
    throw UnsupportedError(fmt::format("the command ended with status {} on the simulated card", child.status));
  }
  fs::path result = explain::largest_result(folder.path());
  if (result.empty()) throw UnsupportedError("the command used no CUDA memory of PyTorch: nothing to estimate");
  return result;
}

void write_files(const ScriptOptions& options, const std::string& command, const explain::ScriptEstimate& found,
                 const trace::Trace& trace) {
  if (!options.page.wants_any()) return;
  explain::Input input;
  input.kind = explain::InputKind::trace;
  input.snapshot = explain::snapshot_of(trace, "script");
  if (!options.page.chrome_trace.empty()) {
    write_file(options.page.chrome_trace, report::chrome_trace(input.snapshot));
  }
  write_page(options.page, [&] { return report::script_page(found, command, input); });
}

}  // namespace

int estimate_script(const ScriptOptions& options) {
  require_page(options.page);
  const TemporaryFolder folder("plimsoll-estimate-");
  const fs::path cards = python_folder() / "plimsoll" / "torch" / "cards";
  const explain::Card card = explain::find_card(cards, options.gpu);
  const fs::path result = run_script(options, card, folder);
  const trace::Trace trace = trace::read(fs::path(result).replace_extension(".csv.gz").string());
  const explain::ScriptEstimate found = explain::estimate_script(
      trace, nlohmann::ordered_json::parse(read_file(result.string())), card, explain::all_cards(cards));
  const std::string command = fmt::format("{}", fmt::join(options.command, " "));
  write_files(options, command, found, trace);
  options.json ? print_json(report::script_json(found)) : print("{}", report::script_text(found, command));
  return found.fits ? kDone : kFinding;
}

}  // namespace plimsoll::cli
