// The plan of one program as JSON, version 2, described in docs/planning.md. Files of `plimsoll plan` hold one or more
// of them: step_plan_json.h.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "plimsoll/plan/plan.h"

namespace plimsoll::plan {

// Which step of which model a plan is for, so that a file is enough to build its program again.
struct Setting {
  std::string model;
  std::string mode;       // train or infer
  std::string optimizer;  // of training
  std::string precision;
  program::Bindings sizes;
  std::vector<std::string> allow = {};  // measures that change the numbers

  bool operator==(const Setting&) const = default;
};

std::string write_plan(const Plan& plan, const Setting& setting, const program::Program& program);

// InputError that names the place in the JSON (`steps[3].writes`), what was found and what was expected. Values are
// looked up in the program by their names; whether the plan holds is the oracle's question (oracle.h).
Setting read_setting(std::string_view text, std::string_view source);
Plan read_plan(std::string_view text, std::string_view source, const program::Program& program);

// Parts of such texts, for files that hold more.
class JsonNode;
nlohmann::ordered_json to_json(const Setting& setting);
nlohmann::ordered_json to_json(const Plan& plan, const program::Program& program);
nlohmann::ordered_json to_json(const std::vector<Measure>& measures);
Setting setting_from(const JsonNode& node);
std::vector<Measure> measures_from(const JsonNode& node);
Plan plan_from(const JsonNode& node, const program::Program& program);

}  // namespace plimsoll::plan
