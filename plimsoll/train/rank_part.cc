#include "plimsoll/train/rank_part.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "plimsoll/base/error.h"
#include "plimsoll/plan/step_plan_json.h"
#include "plimsoll/program/ops/collective.h"

namespace plimsoll::train {
namespace {

using nlohmann::ordered_json;
using Planned = std::variant<plan::StepPlan, plan::Refusal>;

constexpr const char* kSource = "the plan of rank 0";

ordered_json to_json(const plan::Refusal& refusal) {
  ordered_json json = {{"budget_bytes", refusal.budget_bytes},     {"smallest_bytes", refusal.smallest_bytes},
                       {"bound_bytes", refusal.bound_bytes},       {"binding_op", refusal.binding_op},
                       {"resident_bytes", refusal.resident_bytes}, {"smallest_s", refusal.smallest_s},
                       {"smallest_steps", refusal.smallest_steps}, {"unplanned_bytes", refusal.unplanned_bytes},
                       {"unplanned_s", refusal.unplanned_s},       {"cut_short", refusal.cut_short}};
  json["binding"] = ordered_json::array();
  for (const plan::Refusal::Held& held : refusal.binding) json["binding"].push_back({held.name, held.bytes});
  return json;
}

plan::Refusal refusal_from(const ordered_json& json) {
  plan::Refusal refusal;
  refusal.budget_bytes = json.at("budget_bytes");
  refusal.smallest_bytes = json.at("smallest_bytes");
  refusal.bound_bytes = json.at("bound_bytes");
  refusal.binding_op = json.at("binding_op");
  refusal.resident_bytes = json.at("resident_bytes");
  refusal.smallest_s = json.at("smallest_s");
  refusal.smallest_steps = json.at("smallest_steps");
  refusal.unplanned_bytes = json.at("unplanned_bytes");
  refusal.unplanned_s = json.at("unplanned_s");
  refusal.cut_short = json.at("cut_short");
  for (const ordered_json& held : json.at("binding")) refusal.binding.push_back({held.at(0), held.at(1)});
  return refusal;
}

// Every size of part that there is, as a key of the plans.
std::string key_of(int64_t samples) { return std::to_string(samples); }

bool in_micro_batches(const Planned& planned) {
  const auto* step = std::get_if<plan::StepPlan>(&planned);
  return step != nullptr && step->in_micro_batches();
}

// Both take their samples whole, or both in micro-batches: in as many, or the trainer makes it so. Else they would come
// to their collectives in another order, that of the backward pass or that of the update.
bool is_alike(const Planned& one, const Planned& other) { return in_micro_batches(one) == in_micro_batches(other); }

plan::StepForms without_micro_batches(plan::StepForms forms) {
  forms.micro_batch = nullptr;
  forms.update = nullptr;
  return forms;
}

// The plans of rank 0, as the others get them; `own` is that of rank 0's part. A refusal of any part is of all.
ordered_json plan_all(const ModelForms& model, const RankPart& part, const plan::PlanOptions& options, Planned& own) {
  const auto add = [](ordered_json& json, const ModelForms& forms, const Planned& planned) {
    if (const auto* refusal = std::get_if<plan::Refusal>(&planned)) {
      json = {{"refusal", to_json(*refusal)}};
      return;
    }
    json["plans"][key_of(forms.batch())] = plan::write_step_plan(std::get<plan::StepPlan>(planned), forms.setting());
  };
  ordered_json json;
  add(json, model, own);
  const bool is_even = part.batch % part.ranks->ranks() == 0;
  if (is_even || json.contains("refusal")) return json;
  StepRequest smaller = model.request();
  smaller.step.sizes["batch"] = part.samples - 1;
  const ModelForms others(std::move(smaller));
  const plan::StepForms forms_of_others = others.forms(StateForm::f32);
  Planned planned = plan::plan_step(forms_of_others, options);
  if (!is_alike(own, planned)) {
    own = plan::plan_step(without_micro_batches(model.forms(StateForm::f32)), options);
    planned = plan::plan_step(without_micro_batches(forms_of_others), options);
    json = {};
    add(json, model, own);
    if (json.contains("refusal")) return json;
  }
  add(json, others, planned);
  if (std::holds_alternative<plan::Refusal>(planned)) own = std::move(planned);
  return json;
}

}  // namespace

RankPart part_of_rank(std::shared_ptr<device::Communicator> ranks, int64_t batch) {
  if (!ranks || ranks->ranks() == 1) return {};
  if (batch < ranks->ranks()) {
    throw ArgumentError(fmt::format("a batch of {} has no sample for each of {} ranks: take a larger batch, or fewer",
                                    batch, ranks->ranks()));
  }
  const device::Shard own = device::samples_of(batch, ranks->ranks(), ranks->rank());
  return {std::move(ranks), batch, own.first, own.size()};
}

StepRequest request_of_part(StepRequest request, const RankPart& part, program::Sharding sharding) {
  if (!part) return request;
  request.step.sizes["batch"] = part.samples;
  request.step.train.ranks = part.ranks->ranks();
  request.step.train.sharding = sharding;
  if (part.batch % part.ranks->ranks() == 0) return request;
  const auto refuse = [&](std::string_view what) {
    throw ArgumentError(fmt::format("{} needs a batch that divides evenly, and {} samples on {} ranks do not", what,
                                    part.batch, part.ranks->ranks()));
  };
  if (parse_allowed(request.allow).eight_bit_state) refuse("--allow 8-bit-state");
  return request;
}

Peers peers_of(const ModelForms& model, const RankPart& part) {
  if (!part) return {};
  Peers peers;
  peers.least = [ranks = part.ranks](int64_t value) { return device::least_over(*ranks, value); };
  peers.plan = [&model, part](const plan::StepForms& forms, const plan::PlanOptions& options) -> Planned {
    if (part.is_first()) {
      Planned own = plan::plan_step(forms, options);
      device::broadcast_text(*part.ranks, plan_all(model, part, options, own).dump());
      return own;
    }
    const ordered_json json = ordered_json::parse(device::broadcast_text(*part.ranks, {}));
    if (json.contains("refusal")) return refusal_from(json.at("refusal"));
    return plan::read_step_plan(json.at("plans").at(key_of(part.samples)).get<std::string>(), kSource, forms);
  };
  return peers;
}

void require_same_collectives(const RankPart& part, run::Session& session) {
  if (!part) return;
  // Programs of micro-batches have the same, whatever their sizes.
  std::string text = program::collectives_text(session.executor(0).program());
  if (session.executors() > 1) {
    text += "update\n" + program::collectives_text(session.executor(session.executors() - 1).program());
  }
  device::require_same_text(*part.ranks, text, "the programs' collectives");
}

}  // namespace plimsoll::train
