#include "plimsoll/plan/plan_json.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <unordered_map>

#include "plimsoll/base/error.h"

namespace plimsoll::plan {
namespace {

using nlohmann::ordered_json;
using program::Program;
using program::Value;

constexpr std::string_view kVersionKey = "plimsoll_plan";

// A part of a JSON text and the way to it, for errors that say where.
class Node {
 public:
  Node(const ordered_json& json, std::string path, std::string source)
      : json_(&json), path_(std::move(path)), source_(std::move(source)) {}

  [[noreturn]] void fail(std::string_view expected) const {
    const std::string found = json_->is_structured() ? fmt::format("an {}", json_->type_name()) : quote(scalar());
    throw InputError({.source = source_}, fmt::format("{} is {}, expected {}", path_, found, expected));
  }

  Node operator[](const char* key) const {
    if (!json_->is_object()) fail("an object");
    const auto found = json_->find(key);
    if (found == json_->end()) {
      throw InputError({.source = source_}, fmt::format("{} has no \"{}\"", path_, key));
    }
    return {*found, fmt::format("{}.{}", path_, key), source_};
  }

  // Rejects keys that mean nothing: a typing error would else be a silent change of the plan.
  void allow_only(std::initializer_list<std::string_view> keys) const {
    for (const auto& item : json_->items()) {
      if (std::find(keys.begin(), keys.end(), item.key()) != keys.end()) continue;
      throw InputError({.source = source_},
                       fmt::format("{} has {}, which is no key of a plan", path_, quote(item.key())));
    }
  }

  int64_t integer() const {
    const bool fits = json_->is_number_unsigned() ? json_->get<uint64_t>() <= INT64_MAX : json_->is_number_integer();
    if (!fits || json_->get<int64_t>() < 0) fail("a whole number, not negative");
    return json_->get<int64_t>();
  }
  double real() const {
    if (!json_->is_number()) fail("a number");
    return json_->get<double>();
  }
  bool flag() const {
    if (!json_->is_boolean()) fail("true or false");
    return json_->get<bool>();
  }
  const std::string& text() const {
    if (!json_->is_string()) fail("a text");
    return json_->get_ref<const std::string&>();
  }

  template <class Visit>
  void for_each(const Visit& visit) const {
    if (!json_->is_array()) fail("a list");
    for (size_t i = 0; i < json_->size(); ++i) visit(Node{(*json_)[i], fmt::format("{}[{}]", path_, i), source_});
  }
  template <class Visit>
  void for_each_pair(const Visit& visit) const {
    if (!json_->is_object()) fail("an object");
    for (const auto& item : json_->items()) visit(item.key(), Node{item.value(), path_ + "." + item.key(), source_});
  }

 private:
  std::string scalar() const { return json_->dump(-1, ' ', false, ordered_json::error_handler_t::replace); }

  const ordered_json* json_;
  std::string path_;
  std::string source_;
};

// The whole text, its version checked.
class Document {
 public:
  Document(std::string_view text, std::string_view source) : source_(source) {
    try {
      json_ = ordered_json::parse(text);
    } catch (const ordered_json::exception& error) {
      throw InputError({.source = source_}, fmt::format("not JSON: {}", error.what()));
    }
    const Node whole = root();
    whole.allow_only({kVersionKey, "setting", "program", "budget_bytes", "arena_bytes", "unplanned_bytes",
                      "predicted_s", "unplanned_s", "bound_s", "cut_short", "parts", "resident_at_bytes", "steps",
                      "measures", "file_bytes"});
    const Node version = whole[kVersionKey.data()];
    if (version.integer() != Plan::kVersion) version.fail(fmt::format("version {}", Plan::kVersion));
  }

  Node root() const { return {json_, "plan", source_}; }

 private:
  std::string source_;
  ordered_json json_;
};

ordered_json write(const Setting& setting) {
  return {{"model", setting.model},
          {"mode", setting.mode},
          {"optimizer", setting.optimizer},
          {"precision", setting.precision},
          {"sizes", setting.sizes}};
}

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

Fingerprint read_fingerprint(const Node& node) {
  node.allow_only({"text_hash", "scratch_hash", "ops", "values", "threads"});
  return {node["text_hash"].text(), node["scratch_hash"].text(), node["ops"].integer(), node["values"].integer(),
          static_cast<int>(std::min<int64_t>(node["threads"].integer(), INT32_MAX))};
}

Measure read_measure(const Node& node) {
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

  Plan read(const Node& root) const {
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
    root["parts"].for_each([&](const Node& part) { plan.parts.push_back(part.integer()); });
    plan.resident = read_placed(root["resident_at_bytes"]);
    root["steps"].for_each([&](const Node& step) { plan.steps.push_back(read_step(step)); });
    root["measures"].for_each([&](const Node& measure) { plan.measures.push_back(read_measure(measure)); });
    return plan;
  }

 private:
  Value find(const std::string& value, const Node& where) const {
    const auto found = places_.find(value);
    if (found == places_.end()) where.fail("the name of a value of this program");
    return found->second;
  }

  std::vector<Placed> read_placed(const Node& node) const {
    std::vector<Placed> placed;
    node.for_each_pair([&](const std::string& value, const Node& offset) {
      placed.push_back({find(value, node), offset.integer()});
    });
    return placed;
  }

  // The key that says what a step does.
  static StepKind read_kind(const Node& node) {
    std::optional<StepKind> found;
    node.for_each_pair([&](const std::string& key, const Node&) {
      for (const StepKind kind : {StepKind::run, StepKind::recompute, StepKind::spill, StepKind::fetch}) {
        if (key != name(kind)) continue;
        if (found) node.fail("either run, recompute, spill or fetch");
        found = kind;
      }
    });
    if (!found) node.fail("a step that says run, recompute, spill or fetch");
    return *found;
  }

  static int32_t read_place(const Node& node) {
    return static_cast<int32_t>(std::min<int64_t>(node.integer(), INT32_MAX));
  }

  Step read_step(const Node& node) const {
    Step step;
    step.kind = read_kind(node);
    if (step.is_copy()) return read_copy(node, std::move(step));
    node.allow_only({"run", "recompute", "writes_at_bytes", "scratch_at_bytes"});
    step.op = read_place(node[name(step.kind).data()]);
    step.writes = read_placed(node["writes_at_bytes"]);
    step.scratch_offset = node["scratch_at_bytes"].integer();
    return step;
  }

  Step read_copy(const Node& node, Step step) const {
    node.allow_only({"spill", "fetch", "writes_at_bytes", "file_at_bytes", "finish_before"});
    const Node copied = node[name(step.kind).data()];
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

std::string write_plan(const Plan& plan, const Setting& setting, const Program& program) {
  const ordered_json json = {
      {std::string(kVersionKey), Plan::kVersion},
      {"setting", write(setting)},
      {"program", write(plan.program)},
      {"budget_bytes", plan.budget_bytes},
      {"arena_bytes", plan.arena_bytes},
      {"unplanned_bytes", plan.unplanned_bytes},
      {"file_bytes", plan.file_bytes},
      {"predicted_s", plan.predicted_s},
      {"unplanned_s", plan.unplanned_s},
      {"bound_s", plan.bound_s},
      {"cut_short", plan.cut_short},
      {"parts", plan.parts},
      {"resident_at_bytes", write(plan.resident, program)},
      {"steps", list_of(plan.steps, [&](const Step& step) { return write(step, program); })},
      {"measures", list_of(plan.measures, [](const Measure& measure) { return write(measure); })}};
  return json.dump(1) + "\n";
}

Setting read_setting(std::string_view text, std::string_view source) {
  const Document document(text, source);
  const Node node = document.root()["setting"];
  node.allow_only({"model", "mode", "optimizer", "precision", "sizes"});
  Setting setting{node["model"].text(), node["mode"].text(), node["optimizer"].text(), node["precision"].text(), {}};
  node["sizes"].for_each_pair(
      [&](const std::string& symbol, const Node& size) { setting.sizes[symbol] = size.integer(); });
  return setting;
}

Plan read_plan(std::string_view text, std::string_view source, const Program& program) {
  const Document document(text, source);
  return Reader(program).read(document.root());
}

}  // namespace plimsoll::plan
