#include "plimsoll/plan/step_plan_json.h"

#include <algorithm>

#include "plimsoll/plan/json_node.h"

namespace plimsoll::plan {
namespace {

using nlohmann::ordered_json;

constexpr const char* kVersionKey = "plimsoll_step_plan";

std::vector<int64_t> read_sizes(const JsonNode& node, int64_t batch) {
  std::vector<int64_t> sizes;
  int64_t left = batch;
  node.for_each([&](const JsonNode& size) {
    sizes.push_back(size.integer());
    if (sizes.back() < 1 || sizes.back() > left) size.fail(fmt::format("1 to {}: the batch is {}", left, batch));
    left -= sizes.back();
  });
  if (left > 0) node.fail(fmt::format("micro-batches of a batch of {}, {} samples more", batch, left));
  return sizes;
}

int32_t read_place(const JsonNode& node, const std::vector<int32_t>& places) {
  const int64_t place = node.integer();
  if (place != 0 && std::find(places.begin(), places.end(), place) == places.end()) {
    node.fail("0, or a number of ops that this model can chunk");
  }
  return static_cast<int32_t>(place);
}

program::StepForm read_form(const JsonNode& node, const StepForms& forms) {
  node.allow_only({"batch_chunks", "first", "last", "sink_ops", "waits"});
  const program::StepForm form{node["batch_chunks"].integer(), read_place(node["first"], forms.places.first),
                               read_place(node["last"], forms.places.last), node["sink_ops"].flag(),
                               node.has("waits") && node["waits"].flag()};
  if (form.chunks < 1 || forms.batch % form.chunks != 0) {
    node["batch_chunks"].fail(fmt::format("a divisor of the batch, {}", forms.batch));
  }
  if (form.first + form.last > forms.places.ops) node["last"].fail("ops that are not among the first");
  if ((form.chunks > 1) != (form.first + form.last > 0))
    node["batch_chunks"].fail("chunks of some ops, or 1 and no ops");
  if (form != program::StepForm{} && !forms.formed) node.fail("the form of a step as it is written");
  return form;
}

// The programs of a step with these micro-batches or chunks, in the order of StepPlan::programs.
std::vector<kernels::Lowered> programs_of(const StepForms& forms, const StepPlan& step) {
  const std::vector<int64_t>& sizes = step.sizes;
  std::vector<kernels::Lowered> programs;
  if (sizes.size() == 1) {
    programs.push_back(step.form == program::StepForm{} ? forms.whole() : forms.formed(step.form));
    return programs;
  }
  programs.push_back(forms.micro_batch(sizes.front()));
  if (sizes.back() != sizes.front()) programs.push_back(forms.micro_batch(sizes.back()));
  programs.push_back(forms.update());
  return programs;
}

// The forms with the changes of the numbers that the plan has.
const StepForms& forms_with(const JsonNode& node, const std::vector<Measure>& changes, const StepForms& forms) {
  if (changes.empty()) return forms;
  if (changes.size() > 1) node.fail("one change at most");
  if (!forms.otherwise || forms.otherwise->kind != changes[0].kind) {
    node.fail(fmt::format("no change \"{}\": the setting does not allow it", changes[0].kind));
  }
  return forms.otherwise->forms;
}

}  // namespace

ordered_json to_json(const program::StepForm& form) {
  return {{"batch_chunks", form.chunks},
          {"first", form.first},
          {"last", form.last},
          {"sink_ops", form.sink_ops},
          {"waits", form.waits}};
}

std::string write_step_plan(const StepPlan& step, const Setting& setting) {
  ordered_json json = {{kVersionKey, StepPlan::kVersion},
                       {"setting", to_json(setting)},
                       {"budget_bytes", step.budget_bytes},
                       {"arena_bytes", step.arena_bytes},
                       {"unplanned_bytes", step.unplanned_bytes},
                       {"predicted_s", step.predicted_s},
                       {"unplanned_s", step.unplanned_s},
                       {"sizes", step.sizes},
                       {"form", to_json(step.form)},
                       {"changes", to_json(step.changes)},
                       {"programs", ordered_json::array()}};
  for (const PlannedProgram& program : step.programs) {
    json["programs"].push_back(to_json(program.plan, program.lowered.program));
  }
  return write_json(json, 1);
}

StepPlan read_step_plan(std::string_view text, std::string_view source, const StepForms& forms) {
  const ordered_json json = parse_json(text, source);
  const JsonNode root(json, "plan", std::string(source));
  root[kVersionKey].require_version(StepPlan::kVersion);
  root.allow_only({kVersionKey, "setting", "budget_bytes", "arena_bytes", "unplanned_bytes", "predicted_s",
                   "unplanned_s", "sizes", "form", "changes", "programs"});
  StepPlan step;
  step.sizes = read_sizes(root["sizes"], forms.batch);
  if (step.sizes.size() > 1 && !forms.micro_batch)
    root["sizes"].fail("one size: this batch cannot be taken in micro-batches");
  step.form = read_form(root["form"], forms);
  if (step.sizes.size() > 1 && step.form != program::StepForm{})
    root["form"].fail("none: the batch is in micro-batches");
  step.budget_bytes = root["budget_bytes"].integer();
  step.arena_bytes = root["arena_bytes"].integer();
  step.unplanned_bytes = root["unplanned_bytes"].integer();
  step.predicted_s = root["predicted_s"].real();
  step.unplanned_s = root["unplanned_s"].real();
  step.changes = measures_from(root["changes"]);
  std::vector<kernels::Lowered> programs = programs_of(forms_with(root["changes"], step.changes, forms), step);
  root["programs"].for_each([&](const JsonNode& plan) {
    const size_t place = step.programs.size();
    if (place == programs.size()) plan.fail(fmt::format("{} programs for these sizes", programs.size()));
    Plan read = plan_from(plan, programs[place].program);
    step.programs.push_back({std::move(programs[place]), std::move(read), {}});
  });
  if (step.programs.size() < programs.size()) {
    root["programs"].fail(fmt::format("{} programs for these sizes", programs.size()));
  }
  return step;
}

}  // namespace plimsoll::plan
