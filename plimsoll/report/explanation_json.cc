#include <nlohmann/json.hpp>

#include "plimsoll/explain/record.h"
#include "plimsoll/report/explanation.h"

namespace plimsoll::report {
namespace {

using Json = nlohmann::ordered_json;

Json or_null(const explain::OptionalBytes& bytes) { return bytes ? Json(*bytes) : Json(nullptr); }

Json to_json(const explain::Account& account) {
  Json parts = Json::array();
  for (const explain::Holder& part : account.parts) parts.push_back({{"name", part.name}, {"part_bytes", part.bytes}});
  return {{"name", account.name}, {"total_bytes", account.total_bytes}, {"parts", std::move(parts)}};
}

Json to_json(const explain::Culprit& culprit) {
  return {{"place", culprit.place},   {"innermost", culprit.innermost},
          {"module", culprit.module}, {"category", name(culprit.category)},
          {"blocks", culprit.blocks}, {"held_bytes", culprit.bytes},
          {"stack", culprit.stack}};
}

Json to_json(const explain::Remedy& remedy) {
  return {{"id", remedy.id},
          {"action", remedy.action},
          {"setting", remedy.setting},
          {"saves_bytes", or_null(remedy.saves_bytes)},
          {"time_cost", remedy.cost}};
}

Json to_json(const explain::Fact& fact) { return {{"fact", fact.text}, {"value_bytes", or_null(fact.bytes)}}; }

Json to_json(const explain::Counterfactual& other) {
  return {{"name", other.name}, {"needs_bytes", other.needs_bytes}, {"note", other.note}};
}

Json to_json(const explain::Diagnosis& diagnosis);

template <typename Item>
Json list(const std::vector<Item>& items) {
  Json array = Json::array();
  for (const Item& item : items) array.push_back(to_json(item));
  return array;
}

Json to_json(const explain::Diagnosis& diagnosis) {
  return {{"cause", name(diagnosis.cause)},
          {"confidence", name(diagnosis.confidence)},
          {"headline", diagnosis.headline},
          {"framework", name(diagnosis.framework)},
          {"backend", name(diagnosis.backend)},
          {"task", name(diagnosis.task)},
          {"device", diagnosis.device},
          {"rank", diagnosis.rank},
          {"ranks", diagnosis.ranks},
          {"place", diagnosis.place},
          {"line", diagnosis.line},
          {"occurrences", diagnosis.occurrences},
          {"message", diagnosis.message},
          {"requested_bytes", or_null(diagnosis.requested_bytes)},
          {"limit_bytes", or_null(diagnosis.limit_bytes)},
          {"leak_per_step_bytes", or_null(diagnosis.bytes_per_step)},
          {"accounts", list(diagnosis.accounts)},
          {"facts", list(diagnosis.facts)},
          {"culprits", list(diagnosis.culprits)},
          {"counterfactuals", list(diagnosis.counterfactuals)},
          {"remedies", list(diagnosis.remedies)},
          {"no_remedy", diagnosis.no_remedy.empty() ? Json(nullptr) : Json(diagnosis.no_remedy)}};
}

}  // namespace

std::string explanation_json(const explain::Explanation& explanation) {
  const Json json = {
      {"source", explanation.source},
      {"kind", explanation.kind},
      {"diagnoses", list(explanation.diagnoses)},
      {"notes", explanation.notes},
      {"recording_snippet", explanation.wants_snapshot ? Json(explain::recording_snippet()) : Json(nullptr)}};
  // Logs are not always UTF-8; what is not becomes U+FFFD.
  return json.dump(2, ' ', false, Json::error_handler_t::replace);
}

}  // namespace plimsoll::report
