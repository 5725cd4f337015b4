// --json against docs/explain-schema.json, with a checker of the few keywords that the schema uses.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "plimsoll/explain/explain.h"
#include "plimsoll/report/explanation.h"

namespace plimsoll::explain {
namespace {

using nlohmann::json;

class Schema {
 public:
  explicit Schema(const std::string& path) : root_(json::parse(std::ifstream(path))) {}

  // What is wrong and where; empty when nothing is.
  std::string check(const json& value) const { return check(value, root_, "$"); }

 private:
  static bool is_a(const json& value, const std::string& type) {
    return type == "null"      ? value.is_null()
           : type == "string"  ? value.is_string()
           : type == "integer" ? value.is_number_integer()
           : type == "array"   ? value.is_array()
                               : value.is_object();
  }

  std::string check(const json& value, const json& schema, const std::string& where) const {
    for (const auto& [keyword, rule] : schema.items()) {
      std::string wrong = check(keyword, value, rule, schema, where);
      if (!wrong.empty()) return wrong;
    }
    return "";
  }

  std::string check(const std::string& keyword, const json& value, const json& rule, const json& schema,
                    const std::string& where) const {
    if (keyword == "$ref") return check(value, root_["$defs"][rule.get<std::string>().substr(8)], where);
    if (keyword == "enum") return std::count(rule.begin(), rule.end(), value) ? "" : where + ": not one of the names";
    if (keyword == "minimum") return value >= rule ? "" : where + ": too small";
    if (keyword == "type") {
      const json types = rule.is_array() ? rule : json::array({rule});
      const bool fits = std::any_of(types.begin(), types.end(), [&](const json& type) { return is_a(value, type); });
      return fits ? "" : where + ": not a " + rule.dump();
    }
    if (keyword == "items") return check_items(value, rule, where);
    if (keyword == "required") return check_required(value, rule, where);
    if (keyword == "properties") return check_properties(value, rule, where);
    if (keyword == "additionalProperties") return check_no_others(value, schema["properties"], where);
    const bool annotation =
        keyword == "$schema" || keyword == "title" || keyword == "$defs" || keyword == "description";
    return annotation ? "" : where + ": the checker does not know the keyword " + keyword;
  }

  std::string check_items(const json& value, const json& rule, const std::string& where) const {
    for (size_t i = 0; i < value.size(); ++i) {
      const std::string wrong = check(value[i], rule, fmt::format("{}[{}]", where, i));
      if (!wrong.empty()) return wrong;
    }
    return "";
  }

  static std::string check_required(const json& value, const json& rule, const std::string& where) {
    for (const auto& key : rule) {
      if (!value.contains(key)) return fmt::format("{}: {} is missing", where, key.get<std::string>());
    }
    return "";
  }

  std::string check_properties(const json& value, const json& rule, const std::string& where) const {
    for (const auto& [key, part] : rule.items()) {
      if (!value.contains(key)) continue;
      const std::string wrong = check(value[key], part, where + "." + key);
      if (!wrong.empty()) return wrong;
    }
    return "";
  }

  static std::string check_no_others(const json& value, const json& known, const std::string& where) {
    for (const auto& [key, part] : value.items()) {
      if (!known.contains(key)) return fmt::format("{}: {} is not in the schema", where, key);
    }
    return "";
  }

  json root_;
};

const Schema& schema() {
  static const Schema kSchema(PLIMSOLL_SOURCE_DIR "/docs/explain-schema.json");
  return kSchema;
}

std::string check(const Explanation& explanation) {
  return schema().check(json::parse(report::explanation_json(explanation)));
}

TEST(Schema, HoldsForSnapshotsLogsAndComparisons) {
  const std::string data = PLIMSOLL_SOURCE_DIR "/tests/data/oom/";
  for (const char* file :
       {"oom_gpt2.pickle.gz", "leak.pickle.gz", "widecnn.pickle.gz", "oom_gpt2.txt", "torch_ooms.txt", "jax_oom.txt"}) {
    const Input input = read_input(data + file);
    EXPECT_EQ(check(explain(input, file)), "") << file;
  }
  const Input before = read_input(data + "leak.pickle.gz");
  EXPECT_EQ(check(explain_growth(before, read_input(data + "widecnn.pickle.gz"))), "");
}

TEST(Schema, HoldsForEveryThread) {
  for (const auto& entry :
       std::filesystem::recursive_directory_iterator(PLIMSOLL_SOURCE_DIR "/tests/data/oom/threads")) {
    if (!entry.is_regular_file()) continue;
    const Input input = read_input(entry.path().string());
    EXPECT_EQ(check(explain(input, entry.path().string())), "") << entry.path();
  }
}

TEST(Schema, RefusesWhatIsNotInIt) {
  const Input input = read_input(PLIMSOLL_SOURCE_DIR "/tests/data/oom/torch_ooms.txt");
  json value = json::parse(report::explanation_json(explain(input, "log")));
  value["diagnoses"][0]["cause"] = "bad luck";
  EXPECT_NE(schema().check(value), "");
  value["diagnoses"][0]["cause"] = "device_full";
  EXPECT_EQ(schema().check(value), "");
  value["diagnoses"][0].erase("remedies");
  EXPECT_NE(schema().check(value), "");
}

}  // namespace
}  // namespace plimsoll::explain
