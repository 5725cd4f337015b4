// What would help, as data. A row says for whom it is (framework, backend, task, version), for which causes, under
// which condition, the exact setting, and what it frees; a small matcher picks the rows of a situation. No other code
// writes advice, so that a row for one framework cannot reach another.
#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "plimsoll/explain/situation.h"

namespace plimsoll::explain {

using Mask = uint32_t;
template <typename... Enum>
constexpr Mask mask(Enum... values) {
  return ((Mask{1} << static_cast<unsigned>(values)) | ...);
}
inline constexpr Mask kAny = ~Mask{0};

struct RemedyRow {
  std::string_view id;  // "torch.expandable_segments"
  Mask frameworks = kAny;
  Mask causes = 0;
  Mask backends = kAny;
  Mask tasks = kAny;
  Version since{};                           // of the framework; a version that is not known passes
  bool (*when)(const Situation&) = nullptr;  // the precondition, if any
  std::string_view action;                   // with {requested}, {who}, … as below
  std::string_view setting{};                // the exact line, flag or variable; may be empty
  OptionalBytes (*saves)(const Situation&) = nullptr;
  std::string_view cost = "none";
  bool last_resort = false;  // only when no other row applies, those that only collect aside
  bool collects = false;     // says what to record, and changes nothing
};

// Texts may use {requested} {limit} {who} {place} {per_step} {blocks} {parts} {split_mib} {fraction} {limit_mib}
// {gib} {budget_bytes} {device} (as PyTorch names it: cuda, xpu, mps) {variable} (of PyTorch's allocator) {subject}.

// The tables in their order of rank.
std::span<const RemedyRow> collect_remedies();  // what to record where nothing tells
std::span<const RemedyRow> torch_remedies();
std::span<const RemedyRow> framework_remedies();  // TensorFlow, JAX and other frameworks and array libraries
std::span<const RemedyRow> engine_remedies();     // servers and inference engines
std::span<const RemedyRow> host_remedies();       // RAM, cgroups, schedulers, clusters
std::span<const RemedyRow> common_remedies();     // for any framework

bool applies(const RemedyRow& row, const Situation& situation);

// Best first.
std::vector<Remedy> remedies_for(const Situation& situation);

// Remedies, or the reason why there are none.
void add_remedies(const Situation& situation, Diagnosis& diagnosis);

}  // namespace plimsoll::explain
