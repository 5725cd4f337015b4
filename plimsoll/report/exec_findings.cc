#include "plimsoll/report/exec_findings.h"

#include <fmt/format.h>

#include "plimsoll/base/bytes.h"
#include "plimsoll/report/explanation.h"

namespace plimsoll::report {
namespace {

using explain::ExecFinding;
using explain::ExecFindings;

std::string kill_text(const KernelKill& kill) {
  std::string text;
  if (kill.in_cgroup) {
    text = "host memory: the kernel killed a process of this run, because its memory cgroup reached its limit\n";
  } else if (kill.certain) {
    text = "host memory: the kernel killed this run, because the machine ran out of memory\n";
  } else {
    text = "host memory: the run was killed (SIGKILL); the kernel does not tell here whether that was for memory\n";
  }
  if (!kill.limit_source.empty()) {
    text += fmt::format("  limit: {} ({} of it left now that the run is over)\n", kill.limit_source,
                        format_bytes(kill.limit_bytes));
  }
  text += fmt::format("  the largest process of the run held {} of RAM\n", format_bytes(kill.largest_process_bytes));
  text +=
      "  what helps: fewer DataLoader workers (each holds its own batches), a smaller prefetch_factor, "
      "pin_memory=False,\n"
      "  datasets read in place (np.load(mmap_mode='r')) instead of lists of Python objects, or a larger limit\n";
  return text;
}

std::string process_lines(const ExecFindings& findings) {
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

}  // namespace

std::string findings_text(const ExecFindings& findings, bool ended_well, bool colour) {
  std::string text;
  if (ended_well && findings.out_of_memory()) {
    text += "plimsoll: memory ran out, and the command went on\n";
  }
  for (const ExecFinding& finding : findings.explained) {
    text += fmt::format("plimsoll: {} ran out of memory\n", finding.who);
    text += explanation_text(finding.explanation, {false, colour});
    if (!finding.file.empty()) text += fmt::format("snapshot: {}\n", finding.file);
  }
  for (const std::string& report : findings.pool_reports) text += "plimsoll: " + report + "\n";
  if (findings.host.killed) text += "plimsoll: " + kill_text(findings.host);
  for (const std::string& note : findings.notes) text += "plimsoll: note: " + note;
  if (!text.empty() && !text.ends_with('\n')) text += "\n";
  const std::string processes = process_lines(findings);
  if (!processes.empty()) text += "plimsoll: memory on the card\n" + processes;
  return text;
}

nlohmann::ordered_json findings_json(const ExecFindings& findings, const CommandEnd& end) {
  nlohmann::ordered_json json = {{"status", end.status},
                                 {"signal", end.signal},
                                 {"out_of_memory", findings.out_of_memory()},
                                 {"max_resident_bytes", end.max_resident_bytes},
                                 {"processes", findings.processes},
                                 {"notes", findings.notes},
                                 {"recordings", findings.recordings},
                                 {"pool_reports", findings.pool_reports}};
  auto& explained = json["findings"] = nlohmann::ordered_json::array();
  for (const ExecFinding& finding : findings.explained) {
    auto explanation = nlohmann::ordered_json::parse(explanation_json(finding.explanation));
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

}  // namespace plimsoll::report
