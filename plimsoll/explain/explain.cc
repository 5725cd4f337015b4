#include "plimsoll/explain/explain.h"

#include <fmt/format.h>

#include <algorithm>

#include "plimsoll/base/error.h"
#include "plimsoll/explain/causes.h"
#include "plimsoll/explain/compare.h"
#include "plimsoll/explain/counterfactual.h"
#include "plimsoll/explain/fold.h"
#include "plimsoll/trace/binary.h"
#include "plimsoll/trace/file.h"

namespace plimsoll::explain {
namespace {

bool looks_like_pickle(std::string_view head) {
  return head.size() >= 2 && head[0] == '\x80' && head[1] >= 2 && head[1] <= 5;
}

// Traces are binary, or CSV with these columns.
bool looks_like_trace(std::string_view head) {
  const std::string_view line = head.substr(0, head.find('\n'));
  const auto has = [&](std::string_view column) { return line.find(column) != std::string_view::npos; };
  return trace::is_binary(head) || (has("event") && has("id") && has("bytes") && has("stream") && has(","));
}

std::string read_all(ByteSource& source) {
  std::string bytes;
  size_t got = 0;
  do {
    constexpr size_t kStep = 1 << 20;
    const size_t size = bytes.size();
    bytes.resize(size + kStep);
    got = source.read(bytes.data() + size, kStep);
    bytes.resize(size + got);
  } while (got > 0);
  return bytes;
}

const MemorySummary* summary_for(const Failure& failure, const LogFindings& log) {
  for (const MemorySummary& summary : log.summaries) {
    if (failure.framework == Framework::torch && summary.device == failure.device && summary.line > failure.line)
      return &summary;
  }
  return nullptr;
}

// A message tells how much, a snapshot what: PyTorch on a card, from the version on that can record.
bool wants_snapshot(const Diagnosis& diagnosis) {
  return std::any_of(diagnosis.remedies.begin(), diagnosis.remedies.end(),
                     [](const Remedy& remedy) { return remedy.id == "torch.record_snapshot"; });
}

void explain_log(const LogFindings& log, Explanation& explanation) {
  explanation.kind = "log";
  std::vector<Diagnosis> diagnoses;
  for (const Failure& failure : log.failures) diagnoses.push_back(diagnose(failure, summary_for(failure, log)));
  explanation.diagnoses = fold(std::move(diagnoses));
  explanation.wants_snapshot = std::any_of(explanation.diagnoses.begin(), explanation.diagnoses.end(), wants_snapshot);
  if (log.failures.empty()) {
    for (const MemorySummary& summary : log.summaries) explanation.diagnoses.push_back(diagnose(summary));
  }
  if (log.not_failures > 0) {
    explanation.notes.push_back(fmt::format(
        "{} message(s) say that memory ran out but also that this is not a failure; not counted", log.not_failures));
  }
  if (log.more_failures > 0) {
    explanation.notes.push_back(fmt::format("{} more failures are not shown", log.more_failures));
  }
  if (explanation.diagnoses.empty()) {
    explanation.notes.push_back(fmt::format("found nothing in {} bytes; looked for {}", log.bytes, log_forms()));
  }
}

void explain_snapshot(const Snapshot& snapshot, Explanation& explanation) {
  const auto roles = stack_roles(snapshot.stacks);
  for (const DeviceState& device : snapshot.devices) {
    const Timeline timeline = make_timeline(snapshot, device, roles);
    explanation.diagnoses.push_back(diagnose(snapshot, device, timeline));
    if (!timeline.lifetimes.empty()) {
      explanation.diagnoses.back().counterfactuals = counterfactuals(device, timeline);
    }
  }
  if (snapshot.devices.empty())
    explanation.notes.push_back("the snapshot holds no segments and no events of any device");
}

}  // namespace

Input read_input(ByteSource& source) {
  std::string head(256, '\0');
  head.resize(source.read(head.data(), head.size()));
  const auto whole = put_back(head, source);
  Input input;
  if (looks_like_pickle(head)) {
    input.kind = InputKind::snapshot;
    input.snapshot = read_torch_snapshot(*whole);
  } else if (looks_like_trace(head)) {
    input.kind = InputKind::trace;
    input.snapshot = snapshot_of(trace::parse(read_all(*whole), source.name()), source.name());
  } else {
    input.log = read_log(*whole);
    if (input.log.bytes == 0) throw InputError({.source = source.name()}, "the file is empty: nothing to explain");
  }
  return input;
}

Input read_input(const std::string& path) { return read_input(*open_file(path)); }

Explanation explain(const Input& input, const std::string& source) {
  Explanation explanation;
  explanation.source = source;
  explanation.kind = input.kind == InputKind::trace ? "trace" : "torch_snapshot";
  if (input.kind == InputKind::log) {
    explain_log(input.log, explanation);
  } else {
    explain_snapshot(input.snapshot, explanation);
  }
  return explanation;
}

Explanation explain_growth(const Input& before, const Input& after) {
  if (before.kind == InputKind::log || after.kind == InputKind::log) {
    throw ArgumentError("two files are compared only when both are snapshots or traces; one of these is a log");
  }
  return compare(before.snapshot, after.snapshot);
}

}  // namespace plimsoll::explain
