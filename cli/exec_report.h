// What `plimsoll exec` says when the command has ended: what its processes left in the folder, explained.
#pragma once

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "cli/child.h"
#include "cli/host_kill.h"
#include "plimsoll/base/bytes.h"
#include "plimsoll/base/file.h"
#include "plimsoll/explain/explain.h"
#include "plimsoll/report/explanation.h"
#include "plimsoll/report/html_page.h"

namespace plimsoll::cli {

// One out-of-memory event of one process, or of the log.
struct ExecFinding {
  std::string who;   // "rank 3", "process 4711", "the command"
  std::string file;  // the snapshot; empty for the log
  explain::Input input;
  explain::Explanation explanation;
};

struct ExecFindings {
  std::vector<ExecFinding> explained;
  std::vector<std::string> pool_reports;  // of our pool, as it wrote them
  std::vector<nlohmann::json> processes;  // what each process that used CUDA says of itself
  std::vector<std::string> notes;
  std::vector<std::string> recordings;  // snapshots and traces written at the end
  HostKill host;

  bool out_of_memory() const { return !explained.empty() || !pool_reports.empty() || host.killed; }
};

namespace detail {

inline std::vector<std::string> files_named(const std::string& folder, std::string_view start) {
  std::vector<std::string> files;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    const std::string name = entry.path().filename().string();
    if (name.starts_with(start) && !name.ends_with(".part")) files.push_back(entry.path().string());
  }
  std::sort(files.begin(), files.end());
  return files;
}

// "oom_rank3_4711.pickle" is rank 3's.
inline std::string who_wrote(const std::string& path) {
  const std::string name = std::filesystem::path(path).stem().string();
  const size_t rank = name.find("rank");
  if (rank != std::string::npos) return "rank " + name.substr(rank + 4, name.find('_', rank) - rank - 4);
  return "process " + name.substr(name.rfind('_') + 1);
}

inline bool ran_out(const explain::Explanation& explanation) {
  return std::ranges::any_of(explanation.diagnoses,
                             [](const auto& diagnosis) { return diagnosis.cause != explain::Cause::healthy; });
}

inline void add_snapshots(const std::string& folder, ExecFindings& findings) {
  for (const std::string& file : files_named(folder, "oom_")) {
    try {
      ExecFinding finding{.who = who_wrote(file), .file = file, .input = explain::read_input(file), .explanation = {}};
      finding.explanation = explain::explain(finding.input, file);
      findings.explained.push_back(std::move(finding));
    } catch (const Error& error) {
      findings.notes.push_back(fmt::format("{} cannot be explained: {}", file, error.what()));
    }
  }
}

// Only where no process told more itself.
inline void add_log(const std::string& errors, ExecFindings& findings) {
  if (!findings.explained.empty() || errors.empty()) return;
  const auto source = open_memory(errors, "standard error");
  ExecFinding finding{.who = "the command", .file = "", .input = explain::read_input(*source), .explanation = {}};
  if (finding.input.kind != explain::InputKind::log || finding.input.log.failures.empty()) return;
  finding.explanation = explain::explain(finding.input, "standard error");
  if (ran_out(finding.explanation)) findings.explained.push_back(std::move(finding));
}

}  // namespace detail

inline ExecFindings collect(const std::string& folder, const ChildResult& child, const HostKill& host) {
  ExecFindings findings;
  findings.host = host;
  detail::add_snapshots(folder, findings);
  if (child.status != 0) detail::add_log(child.errors, findings);
  for (const std::string& file : detail::files_named(folder, "pool_oom_")) {
    findings.pool_reports.push_back(read_file(file));
  }
  for (const std::string& file : detail::files_named(folder, "status_")) {
    auto status = nlohmann::json::parse(read_file(file), nullptr, false);
    if (!status.is_discarded()) findings.processes.push_back(std::move(status));
  }
  for (const std::string& file : detail::files_named(folder, "notes_")) findings.notes.push_back(read_file(file));
  for (const std::string_view start : {"record_", "pool_trace_"}) {
    for (std::string& file : detail::files_named(folder, start)) findings.recordings.push_back(std::move(file));
  }
  return findings;
}

inline std::string process_lines(const ExecFindings& findings) {
  std::string text;
  for (const nlohmann::json& process : findings.processes) {
    const auto& rank = process["rank"];
    const std::string who =
        rank.is_string() ? "rank " + rank.get<std::string>() : fmt::format("process {}", process.value("pid", 0));
    for (const nlohmann::json& device : process["devices"]) {
      text += fmt::format("  {:<16}cuda:{}  peak {} allocated, {} reserved", who, device.value("device", 0),
                          format_bytes(device.value("peak_allocated_bytes", int64_t{0})),
                          format_bytes(device.value("peak_reserved_bytes", int64_t{0})));
      if (device["context_bytes"].is_number()) {
        text += fmt::format(", {} beside the allocator", format_bytes(device["context_bytes"].get<int64_t>()));
      }
      text += "\n";
    }
  }
  return text;
}

// `ended_well`: the command exited with 0, so what ran out was caught by it.
inline std::string findings_text(const ExecFindings& findings, bool ended_well, bool colour) {
  std::string text;
  if (ended_well && findings.out_of_memory()) {
    text += "plimsoll: memory ran out, and the command went on\n";
  }
  for (const ExecFinding& finding : findings.explained) {
    text += fmt::format("plimsoll: {} ran out of memory\n", finding.who);
    text += report::explanation_text(finding.explanation, {false, colour});
    if (!finding.file.empty()) text += fmt::format("snapshot: {}\n", finding.file);
  }
  for (const std::string& report : findings.pool_reports) text += "plimsoll: " + report + "\n";
  if (findings.host.killed) text += "plimsoll: " + text_of(findings.host);
  for (const std::string& note : findings.notes) text += "plimsoll: note: " + note;
  if (!text.empty() && !text.ends_with('\n')) text += "\n";
  const std::string processes = process_lines(findings);
  if (!processes.empty()) text += "plimsoll: memory on the card\n" + processes;
  return text;
}

inline nlohmann::ordered_json findings_json(const ExecFindings& findings, const ChildResult& child) {
  nlohmann::ordered_json json = {{"status", child.status},
                                 {"signal", child.signal},
                                 {"out_of_memory", findings.out_of_memory()},
                                 {"max_resident_bytes", child.max_resident_bytes},
                                 {"processes", findings.processes},
                                 {"notes", findings.notes},
                                 {"recordings", findings.recordings},
                                 {"pool_reports", findings.pool_reports}};
  auto& explained = json["findings"] = nlohmann::ordered_json::array();
  for (const ExecFinding& finding : findings.explained) {
    auto explanation = nlohmann::ordered_json::parse(report::explanation_json(finding.explanation));
    explained.push_back({{"who", finding.who}, {"file", finding.file}, {"explanation", std::move(explanation)}});
  }
  if (findings.host.killed) {
    json["host_kill"] = {{"in_cgroup", findings.host.in_cgroup},
                         {"certain", findings.host.certain},
                         {"limit", findings.host.limit_source},
                         {"largest_process_bytes", findings.host.largest_process_bytes}};
  }
  return json;
}

}  // namespace plimsoll::cli
