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

ordered_json write(const Step& step, const Program& program) {
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
                     "unplanned_s", "bound_s", "cut_short", "parts", "resident_at_bytes", "steps", "measures"});
    Plan plan;
    plan.program = read_fingerprint(root["program"]);
    plan.budget_bytes = root["budget_bytes"].integer();
    plan.arena_bytes = root["arena_bytes"].integer();
    plan.unplanned_bytes = root["unplanned_bytes"].integer();
    plan.predicted_s = root["predicted_s"].real();
    plan.unplanned_s = root["unplanned_s"].real();
    plan.bound_s = root["bound_s"].real();
    plan.cut_short = root["cut_short"].flag();
    root["parts"].for_each([&](const JsonNode& part) { plan.parts.push_back(part.integer()); });
    plan.resident = read_placed(root["resident_at_bytes"]);
    root["steps"].for_each([&](const JsonNode& step) { plan.steps.push_back(read_step(step)); });
    root["measures"].for_each([&](const JsonNode& measure) { plan.measures.push_back(read_measure(measure)); });
    return plan;
  }

 private:
  std::vector<Placed> read_placed(const JsonNode& node) const {
    std::vector<Placed> placed;
    node.for_each_pair([&](const std::string& value, const JsonNode& offset) {
      const auto found = places_.find(value);
      if (found == places_.end()) offset.fail("the name of a value of this program before it");
      placed.push_back({found->second, offset.integer()});
    });
    return placed;
  }

  Step read_step(const JsonNode& node) const {
    node.allow_only({"run", "recompute", "writes_at_bytes", "scratch_at_bytes"});
    Step step;
    bool known = false;
    node.for_each_pair([&](const std::string& key, const JsonNode& value) {
      if (key != "run" && key != "recompute") return;
      if (known) node.fail("either run or recompute");
      known = true;
      step.kind = key == "run" ? StepKind::run : StepKind::recompute;
      step.op = static_cast<int32_t>(std::min<int64_t>(value.integer(), INT32_MAX));
    });
    if (!known) node.fail("a step that says run or recompute");
    step.writes = read_placed(node["writes_at_bytes"]);
    step.scratch_offset = node["scratch_at_bytes"].integer();
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
          {"predicted_s", plan.predicted_s},
          {"unplanned_s", plan.unplanned_s},
          {"bound_s", plan.bound_s},
          {"cut_short", plan.cut_short},
          {"parts", plan.parts},
          {"resident_at_bytes", write(plan.resident, program)},
          {"steps", list_of(plan.steps, [&](const Step& step) { return write(step, program); })},
          {"measures", list_of(plan.measures, [](const Measure& measure) { return write(measure); })}};
}

Plan plan_from(const JsonNode& node, const Program& program) { return Reader(program).read(node); }

std::string write_plan(const Plan& plan, const Setting& setting, const Program& program) {
  ordered_json json = {{std::string(kVersionKey), Plan::kVersion}, {"setting", to_json(setting)}};
  json.update(to_json(plan, program));
  return json.dump(1) + "\n";
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
