#include "plimsoll/explain/exec_findings.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <string_view>

#include "plimsoll/base/error.h"
#include "plimsoll/base/file.h"

namespace plimsoll::explain {
namespace {

std::vector<std::string> files_named(const std::string& folder, std::string_view start) {
  std::vector<std::string> files;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    const std::string name = entry.path().filename().string();
    if (name.starts_with(start) && !name.ends_with(".part")) files.push_back(entry.path().string());
  }
  std::sort(files.begin(), files.end());
  return files;
}

// "oom_rank3_4711.pickle" is rank 3's.
std::string who_wrote(const std::string& path) {
  const std::string name = std::filesystem::path(path).stem().string();
  const size_t rank = name.find("rank");
  if (rank != std::string::npos) return "rank " + name.substr(rank + 4, name.find('_', rank) - rank - 4);
  return "process " + name.substr(name.rfind('_') + 1);
}

bool ran_out(const Explanation& explanation) {
  return std::ranges::any_of(explanation.diagnoses,
                             [](const auto& diagnosis) { return diagnosis.cause != Cause::healthy; });
}

void add_snapshots(const std::string& folder, ExecFindings& findings) {
  for (const std::string& file : files_named(folder, "oom_")) {
    try {
      ExecFinding finding{.who = who_wrote(file), .file = file, .input = read_input(file), .explanation = {}};
      finding.explanation = explain(finding.input, file);
      findings.explained.push_back(std::move(finding));
    } catch (const Error& error) {
      findings.notes.push_back(fmt::format("{} cannot be explained: {}", file, error.what()));
    }
  }
}

// Only where no process told more itself.
void add_log(const std::string& errors, ExecFindings& findings) {
  if (!findings.explained.empty() || errors.empty()) return;
  const auto source = open_memory(errors, "standard error");
  ExecFinding finding{.who = "the command", .file = "", .input = read_input(*source), .explanation = {}};
  if (finding.input.kind != InputKind::log || finding.input.log.failures.empty()) return;
  finding.explanation = explain(finding.input, "standard error");
  if (ran_out(finding.explanation)) findings.explained.push_back(std::move(finding));
}

}  // namespace

ExecFindings collect_findings(const std::string& folder, const std::string& errors, const KernelKill& host) {
  ExecFindings findings;
  findings.host = host;
  add_snapshots(folder, findings);
  add_log(errors, findings);
  for (const std::string& file : files_named(folder, "pool_oom_")) {
    findings.pool_reports.push_back(read_file(file));
  }
  for (const std::string& file : files_named(folder, "status_")) {
    auto status = nlohmann::json::parse(read_file(file), nullptr, false);
    if (!status.is_discarded()) findings.processes.push_back(std::move(status));
  }
  for (const std::string& file : files_named(folder, "notes_")) findings.notes.push_back(read_file(file));
  for (const std::string_view start : {"record_", "pool_trace_"}) {
    for (std::string& file : files_named(folder, start)) findings.recordings.push_back(std::move(file));
  }
  return findings;
}

}  // namespace plimsoll::explain
