#include <fmt/args.h>
#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstdint>

#include "plimsoll/base/bytes.h"
#include "plimsoll/explain/remedies.h"

namespace plimsoll::explain {
namespace {

std::string text_of(OptionalBytes bytes) { return bytes ? format_bytes(*bytes) : "an unknown amount"; }

std::string_view torch_device(Backend backend) {
  if (backend == Backend::mps) return "mps";
  if (backend == Backend::cpu) return "cpu";
  if (backend == Backend::npu) return "npu";
  return backend == Backend::xpu ? "xpu" : "cuda";  // ROCm's PyTorch says cuda
}

std::string_view torch_variable(const Situation& situation) {
  if (situation.version >= Version{2, 9}) return "PYTORCH_ALLOC_CONF";
  return situation.backend == Backend::rocm ? "PYTORCH_HIP_ALLOC_CONF" : "PYTORCH_CUDA_ALLOC_CONF";
}

// A power of two about a quarter of the request, so that large segments are not split for small blocks.
int64_t split_mib(int64_t requested) {
  return std::max<int64_t>(32, static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(requested / kMiB / 4 + 1))));
}

// The share of the card that would use what is free on it.
double fraction(const Situation& situation) {
  const int64_t total = situation.total_bytes.value_or(0);
  if (total <= 0 || !situation.allowed_bytes || !situation.free_bytes) return 1.0;
  const int64_t more = std::min(*situation.free_bytes, total - *situation.allowed_bytes);
  return std::min(1.0, static_cast<double>(*situation.allowed_bytes + more) / static_cast<double>(total));
}

// A quarter more than the limit that was reached, or than what the process held.
int64_t roomier_bytes(const Situation& situation) {
  const int64_t bytes = situation.allowed_bytes.value_or(situation.process_bytes.value_or(0));
  return bytes + bytes / 4;
}

std::string fill(std::string_view text, const Situation& situation) {
  const int64_t requested = situation.requested_bytes.value_or(0);
  const int64_t roomier = roomier_bytes(situation);
  fmt::dynamic_format_arg_store<fmt::format_context> values;
  values.push_back(fmt::arg("requested", text_of(situation.requested_bytes)));
  values.push_back(fmt::arg("limit", text_of(situation.limit_bytes)));
  values.push_back(fmt::arg("who", situation.who.empty() ? "the other users of the device" : situation.who));
  values.push_back(fmt::arg("place", situation.place));
  values.push_back(fmt::arg("per_step", text_of(situation.leak_per_step_bytes)));
  values.push_back(fmt::arg("blocks", situation.blocks));
  values.push_back(fmt::arg("parts", requested / std::max<int64_t>(situation.limit_bytes.value_or(requested), 1) + 1));
  values.push_back(fmt::arg("split_mib", split_mib(requested)));
  values.push_back(fmt::arg("fraction", fmt::format("{:.2f}", fraction(situation))));
  values.push_back(fmt::arg("limit_mib", roomier > 0 ? fmt::format("{}Mi", roomier / kMiB) : "<more>"));
  values.push_back(fmt::arg("gib", roomier > 0 ? fmt::format("{}G", roomier / kGiB + 1) : "<more>"));
  values.push_back(fmt::arg("budget_bytes", situation.allocated_bytes.value_or(0) + requested));
  values.push_back(fmt::arg("device", torch_device(situation.backend)));
  values.push_back(fmt::arg("variable", torch_variable(situation)));
  values.push_back(fmt::arg("subject", situation.subject));
  return fmt::vformat(text, values);
}

bool has(Mask set, auto value) { return (set & mask(value)) != 0; }

Remedy make(const RemedyRow& row, const Situation& situation) {
  std::string action = fill(row.action, situation);
  if (row.since != Version{} && situation.version == Version{}) {
    action += fmt::format(" (from version {}.{} on)", row.since.major, row.since.minor);
  }
  return {std::move(action), fill(row.setting, situation), row.saves ? row.saves(situation) : std::nullopt,
          std::string(row.cost), std::string(row.id)};
}

// No figure of a broken file is so large that sums of several overflow: 1 EiB is more than any machine has.
Situation bounded(Situation situation) {
  constexpr int64_t kMost = int64_t{1} << 60;
  for (OptionalBytes* bytes :
       {&situation.requested_bytes, &situation.limit_bytes, &situation.total_bytes, &situation.allowed_bytes,
        &situation.allocated_bytes, &situation.free_bytes, &situation.idle_bytes, &situation.idle_segment_bytes,
        &situation.other_bytes, &situation.process_bytes, &situation.padding_bytes, &situation.activation_bytes,
        &situation.state_bytes, &situation.optimizer_bytes, &situation.scratch_bytes, &situation.checkpoint_saves_bytes,
        &situation.leaked_bytes, &situation.leak_per_step_bytes, &situation.excess_bytes}) {
    if (*bytes) *bytes = std::clamp<int64_t>(**bytes, -kMost, kMost);
  }
  return situation;
}

}  // namespace

bool applies(const RemedyRow& row, const Situation& situation) {
  const bool audience = has(row.frameworks, situation.framework) ||
                        (situation.engine != Framework::unknown && has(row.frameworks, situation.engine));
  const bool version = situation.version == Version{} || situation.version >= row.since;
  return audience && version && has(row.causes, situation.cause) && has(row.backends, situation.backend) &&
         has(row.tasks, situation.task) && (row.when == nullptr || row.when(situation));
}

std::vector<Remedy> remedies_for(const Situation& given) {
  const Situation situation = bounded(given);
  std::vector<Remedy> remedies;
  bool changes = false;
  for (const bool last_resort : {false, true}) {
    if (last_resort && changes) break;
    for (const auto table : {collect_remedies(), engine_remedies(), torch_remedies(), framework_remedies(),
                             host_remedies(), common_remedies()}) {
      for (const RemedyRow& row : table) {
        if (row.last_resort != last_resort || !applies(row, situation)) continue;
        changes = changes || !row.collects;
        remedies.push_back(make(row, situation));
      }
    }
  }
  return remedies;
}

void add_remedies(const Situation& situation, Diagnosis& diagnosis) {
  diagnosis.remedies = remedies_for(situation);
  if (!diagnosis.remedies.empty()) return;
  diagnosis.no_remedy = situation.cause == Cause::healthy ? "nothing ran out, so there is nothing to change"
                                                          : "the input does not show what could be changed";
}

}  // namespace plimsoll::explain
