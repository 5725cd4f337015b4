#include <fmt/format.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "cli/console.h"
#include "cli/verbs.h"
#include "plimsoll/base/bytes.h"
#include "plimsoll/base/child_process.h"
#include "plimsoll/base/companions.h"
#include "plimsoll/base/error.h"
#include "plimsoll/base/file.h"
#include "plimsoll/base/temporary_folder.h"
#include "plimsoll/device/cuda/nvml.h"
#include "plimsoll/explain/exec_findings.h"
#include "plimsoll/memory/kernel_kills.h"
#include "plimsoll/report/exec_findings.h"
#include "plimsoll/report/html_page.h"
#include "plimsoll/report/terminal.h"

namespace plimsoll::cli {
namespace {

using explain::ExecFinding;
using explain::ExecFindings;

struct Options {
  std::vector<std::string> command;
  std::string budget;
  std::string record;
  std::string on_oom;
  std::string html;
  int64_t events = 100'000;
  bool pool = false;
  bool json = false;
};

std::string used_now() {
  std::string list;
  for (const cuda::CardMemory& card : cuda::card_memory()) {
    list += fmt::format("{}{}={}", list.empty() ? "" : ",", card.bus_id, card.used_bytes);
  }
  return list;
}

std::string joined(const std::string& first, const char* variable, char separator) {
  const char* const rest = std::getenv(variable);
  return rest == nullptr || *rest == '\0' ? first : first + separator + rest;
}

// PyTorch reads the new name from 2.9 on and the old one still. What else the user set there stays.
std::string with_async_backend(const char* variable) {
  const char* const set = std::getenv(variable);
  const std::string_view others = set != nullptr ? set : "";
  if (others.find("backend:") != std::string_view::npos) {
    throw ArgumentError(
        fmt::format("--pool needs PyTorch's cudaMallocAsync backend, but {} is set to {}", variable, others));
  }
  return others.empty() ? "backend:cudaMallocAsync" : fmt::format("backend:cudaMallocAsync,{}", others);
}

std::map<std::string, std::string> environment_of(const Options& options, const std::string& folder) {
  std::map<std::string, std::string> environment = {
      {"PLIMSOLL_EXEC_DIR", folder},
      {"PLIMSOLL_DEVICE_USED", used_now()},
      {"PLIMSOLL_RECORD", options.record.empty() ? "0" : "1"},
      {"PLIMSOLL_POOL", options.pool ? "1" : "0"},
      // The pool's own record costs nothing worth speaking of, but memory and a file: only when asked for.
      {"PLIMSOLL_EVENTS", std::to_string(options.pool && options.record.empty() ? 0 : options.events)},
      {"PYTHONPATH", joined((python_folder() / "plimsoll" / "exec_site").string(), "PYTHONPATH", ':')}};
  if (!options.budget.empty()) environment["PLIMSOLL_BUDGET"] = std::to_string(parse_bytes(options.budget));
  if (!options.pool) return environment;
  environment["LD_PRELOAD"] = joined(preload_library().string(), "LD_PRELOAD", ':');
  for (const char* const variable : {"PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_ALLOC_CONF"}) {
    environment[variable] = with_async_backend(variable);
  }
  // Memory of many handles is registered wrongly by NCCL.
  if (std::getenv("NCCL_GRAPH_REGISTER") == nullptr) environment["NCCL_GRAPH_REGISTER"] = "0";
  return environment;
}

// "run.pickle" for the first, "run.1.pickle" for the next: one file per process.
std::string numbered(const std::string& path, size_t index) {
  if (index == 0) return path;
  const std::filesystem::path whole(path);
  return (whole.parent_path() / fmt::format("{}.{}{}", whole.stem().string(), index, whole.extension().string()))
      .string();
}

void write_outputs(const Options& options, ExecFindings& findings) {
  for (size_t i = 0; i < findings.recordings.size() && !options.record.empty(); ++i) {
    const std::string target = numbered(options.record, i);
    std::filesystem::copy_file(findings.recordings[i], target, std::filesystem::copy_options::overwrite_existing);
    findings.recordings[i] = target;
  }
  for (size_t i = 0; i < findings.explained.size() && !options.html.empty(); ++i) {
    const ExecFinding& finding = findings.explained[i];
    write_file(numbered(options.html, i), report::html_page(finding.explanation, finding.input));
  }
}

void run_hook(const std::string& command, const ExecFindings& findings, const TemporaryFolder& folder) {
  setenv("PLIMSOLL_EXEC_DIR", folder.path().c_str(), 1);
  const bool has_snapshot = !findings.explained.empty() && !findings.explained[0].file.empty();
  setenv("PLIMSOLL_OOM_SNAPSHOT", has_snapshot ? findings.explained[0].file.c_str() : "", 1);
  if (std::system(command.c_str()) != 0) tell("plimsoll: --on-oom '{}' failed\n", command);
}

int run(const Options& options) {
  TemporaryFolder folder("plimsoll-exec-");  // kept when something in it is worth it
  const ChildOptions child_options{.command = options.command,
                                   .environment = environment_of(options, folder.path()),
                                   .stdout_to_stderr = options.json,
                                   .on_terminal = isatty(STDERR_FILENO) != 0,
                                   .on_error_text = write_errors};
  const KillCounts before;
  const ChildResult child = run_child(child_options);
  const KernelKill host = judge_kill(before, {}, child.signal, child.max_resident_bytes);
  ExecFindings findings =
      explain::collect_findings(folder.path(), child.status == 0 ? std::string() : child.errors, host);
  write_outputs(options, findings);
  if (findings.out_of_memory()) folder.keep();
  if (options.json) {
    print_json(report::findings_json(findings, {child.status, child.signal, child.max_resident_bytes}));
  } else {
    const bool colour = isatty(STDERR_FILENO) != 0 && report::allows_colour();
    tell(report::fold_lines(report::findings_text(findings, child.status == 0, colour), report::columns_of_terminal()));
  }
  if (findings.out_of_memory() && !options.on_oom.empty()) run_hook(options.on_oom, findings, folder);
  return child.status;
}

}  // namespace

void add_exec(const Command& app, int& status) {
  const Command verb = app.add_verb("exec", "Run another framework's program: cap its memory, explain if it runs out");
  verb.footer(
      "Example: plimsoll exec --budget 16GiB -- python train.py --epochs 1\n"
      "Exits as the command does: its own status, 128 and the signal, or 127 when it is not found.");
  const auto options = std::make_shared<Options>();
  verb.add_words("COMMAND", options->command, "The program and its arguments, after --").required();
  verb.add_option("--budget", options->budget,
                  "What each process may take of each card, its CUDA context included, like 16GiB")
      .check([](const std::string& text) { return parse_bytes(text) > 0 ? "" : "a budget must be more than nothing"; });
  verb.add_flag("--pool", options->pool, "Put the pool under PyTorch: reserved memory is live memory");
  verb.add_option("--record", options->record,
                  "Write the memory history here at the end: a snapshot, or with --pool a trace");
  verb.add_option("--events", options->events, "How many of the last events are kept").shows_default().in_range(1, 1e9);
  verb.add_option("--on-oom", options->on_oom, "Run this in a shell when memory ran out (PLIMSOLL_OOM_SNAPSHOT)");
  verb.add_option("--html", options->html, "Write a page about what ran out, for a browser");
  verb.add_flag("--json", options->json, "Print JSON; what the command prints goes to standard error");
  verb.callback([options, &status] { status = run(*options); });
}

}  // namespace plimsoll::cli
