#include "plimsoll/plan/plan_json.h"

#include <unordered_map>

#include "plimsoll/plan/json_node.h"

namespace plimsoll::plan {
namespace {

using nlohmann::ordered_json;
using program::Program;
using program::Value;

constexpr std::string_view kVersionKey = "plimsoll_plan";

ordered_json write(const Fingerprint& program) {
  return {{"text_hash", program.text_hash},
          {"scratch_hash", program.scratch_hash},
          {"ops", program.ops},
          {"values", program.values},
          {"threads", program.threads}};
}

ordered_json write(const std::vector<Placed>& placed, const Program& program) {
  ordered_json json = ordered_json::object();
  for (const Placed& one : placed) json[program[one.owner].name] = one.offset;
  return json;
}

ordered_json write_copy(const Step& step, const Program& program) {
  ordered_json json = {{std::string(name(step.kind)), program[step.copied].name}};
  if (step.kind == StepKind::fetch) json["writes_at_bytes"] = write(step.writes, program);
  json["file_at_bytes"] = step.file_offset;
  json["finish_before"] = step.finish_before;
  return json;
}

ordered_json write(const Step& step, const Program& program) {
  if (step.is_copy()) return write_copy(step, program);
  return {{std::string(name(step.kind)), step.op},
          {"writes_at_bytes", write(step.writes, program)},
          {"scratch_at_bytes", step.scratch_offset}};
}

ordered_json write(const Measure& measure) {
  return {{"kind", measure.kind},
          {"what", measure.what},
          {"times", measure.times},
          {"saved_bytes", measure.saved_bytes},
          {"cost_s", measure.cost_s}};
}

Fingerprint read_fingerprint(const JsonNode& node) {
  node.allow_only({"text_hash", "scratch_hash", "ops", "values", "threads"});
  return {node["text_hash"].text(), node["scratch_hash"].text(), node["ops"].integer(), node["values"].integer(),
          static_cast<int>(std::min<int64_t>(node["threads"].integer(), INT32_MAX))};
}

Measure read_measure(const JsonNode& node) {
  node.allow_only({"kind", "what", "times", "saved_bytes", "cost_s"});
  return {node["kind"].text(), node["what"].text(),
          static_cast<int>(std::min<int64_t>(node["times"].integer(), INT32_MAX)), node["saved_bytes"].integer(),
          node["cost_s"].real()};
}

class Reader {
 public:
  explicit Reader(const Program& program) {
    for (size_t i = 0; i < program.values.size(); ++i) places_[program.values[i].name] = {static_cast<int32_t>(i)};
  }

  Plan read(const JsonNode& root) const {
    root.allow_only({kVersionKey, "setting", "program", "budget_bytes", "arena_bytes", "unplanned_bytes", "predicted_s",
                     "unplanned_s", "bound_s", "cut_short", "micro_batches", "resident_at_bytes", "steps", "measures",
                     "file_bytes"});
    Plan plan;
    plan.program = read_fingerprint(root["program"]);
    plan.budget_bytes = root["budget_bytes"].integer();
    plan.arena_bytes = root["arena_bytes"].integer();
    plan.unplanned_bytes = root["unplanned_bytes"].integer();
    plan.file_bytes = root["file_bytes"].integer();
    plan.predicted_s = root["predicted_s"].real();
    plan.unplanned_s = root["unplanned_s"].real();
    plan.bound_s = root["bound_s"].real();
    plan.cut_short = root["cut_short"].flag();
    root["micro_batches"].for_each(
        [&](const JsonNode& micro_batch) { plan.micro_batches.push_back(micro_batch.integer()); });
    plan.resident = read_placed(root["resident_at_bytes"]);
    root["steps"].for_each([&](const JsonNode& step) { plan.steps.push_back(read_step(step)); });
    plan.measures = measures_from(root["measures"]);
    return plan;
  }

 private:
  Value find(const std::string& value, const JsonNode& where) const {
    const auto found = places_.find(value);
    if (found == places_.end()) where.fail("the name of a value of this program");
    return found->second;
  }

  std::vector<Placed> read_placed(const JsonNode& node) const {
    std::vector<Placed> placed;
    node.for_each_pair([&](const std::string& value, const JsonNode& offset) {
      placed.push_back({find(value, offset), offset.integer()});
    });
    return placed;
  }

  // The key that says what a step does.
  static StepKind read_kind(const JsonNode& node) {
    std::optional<StepKind> found;
    node.for_each_pair([&](const std::string& key, const JsonNode&) {
      for (const StepKind kind : {StepKind::run, StepKind::recompute, StepKind::spill, StepKind::fetch}) {
        if (key != name(kind)) continue;
        if (found) node.fail("either run, recompute, spill or fetch");
        found = kind;
      }
    });
    if (!found) node.fail("a step that says run, recompute, spill or fetch");
    return *found;
  }

  static int32_t read_place(const JsonNode& node) {
    return static_cast<int32_t>(std::min<int64_t>(node.integer(), INT32_MAX));
  }

  Step read_step(const JsonNode& node) const {
    Step step;
    step.kind = read_kind(node);
    if (step.is_copy()) return read_copy(node, std::move(step));
    node.allow_only({"run", "recompute", "writes_at_bytes", "scratch_at_bytes"});
    step.op = read_place(node[name(step.kind).data()]);
    step.writes = read_placed(node["writes_at_bytes"]);
    step.scratch_offset = node["scratch_at_bytes"].integer();
    return step;
  }

  Step read_copy(const JsonNode& node, Step step) const {
    node.allow_only({"spill", "fetch", "writes_at_bytes", "file_at_bytes", "finish_before"});
    const JsonNode copied = node[name(step.kind).data()];
    step.copied = find(copied.text(), copied);
    if (step.kind == StepKind::fetch) step.writes = read_placed(node["writes_at_bytes"]);
    step.file_offset = node["file_at_bytes"].integer();
    step.finish_before = read_place(node["finish_before"]);
    return step;
  }

  std::unordered_map<std::string, Value> places_;
};

template <class List, class Write>
ordered_json list_of(const List& list, const Write& write_one) {
  ordered_json json = ordered_json::array();
  for (const auto& one : list) json.push_back(write_one(one));
  return json;
}

}  // namespace

ordered_json to_json(const Setting& setting) {
  return {{"model", setting.model},         {"mode", setting.mode},   {"optimizer", setting.optimizer},
          {"precision", setting.precision}, {"sizes", setting.sizes}, {"allow", setting.allow}};
}

Setting setting_from(const JsonNode& node) {
  node.allow_only({"model", "mode", "optimizer", "precision", "sizes", "allow"});
  Setting setting{
      node["model"].text(), node["mode"].text(), node["optimizer"].text(), node["precision"].text(), {}, {}};
  node["sizes"].for_each_pair(
      [&](const std::string& symbol, const JsonNode& size) { setting.sizes[symbol] = size.integer(); });
  node["allow"].for_each([&](const JsonNode& measure) { setting.allow.push_back(measure.text()); });
  return setting;
}

ordered_json to_json(const Plan& plan, const Program& program) {
  return {{"program", write(plan.program)},
          {"budget_bytes", plan.budget_bytes},
          {"arena_bytes", plan.arena_bytes},
          {"unplanned_bytes", plan.unplanned_bytes},
          {"file_bytes", plan.file_bytes},
          {"predicted_s", plan.predicted_s},
          {"unplanned_s", plan.unplanned_s},
          {"bound_s", plan.bound_s},
          {"cut_short", plan.cut_short},
          {"micro_batches", plan.micro_batches},
          {"resident_at_bytes", write(plan.resident, program)},
          {"steps", list_of(plan.steps, [&](const Step& step) { return write(step, program); })},
          {"measures", to_json(plan.measures)}};
}

ordered_json to_json(const std::vector<Measure>& measures) {
  return list_of(measures, [](const Measure& measure) { return write(measure); });
}

std::vector<Measure> measures_from(const JsonNode& node) {
  std::vector<Measure> measures;
  node.for_each([&](const JsonNode& measure) { measures.push_back(read_measure(measure)); });
  return measures;
}

Plan plan_from(const JsonNode& node, const Program& program) { return Reader(program).read(node); }

std::string write_plan(const Plan& plan, const Setting& setting, const Program& program) {
  ordered_json json = {{std::string(kVersionKey), Plan::kVersion}, {"setting", to_json(setting)}};
  json.update(to_json(plan, program));
  return write_json(json, 1);
}

Setting read_setting(std::string_view text, std::string_view source) {
  const ordered_json json = parse_json(text, source);
  return setting_from(JsonNode(json, "plan", std::string(source))["setting"]);
}

Plan read_plan(std::string_view text, std::string_view source, const Program& program) {
  const ordered_json json = parse_json(text, source);
  const JsonNode root(json, "plan", std::string(source));
  root[kVersionKey.data()].require_version(Plan::kVersion);
  return plan_from(root, program);
}

}  // namespace plimsoll::plan
