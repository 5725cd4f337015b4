#include "plimsoll/plan/cost_cache.h"

#include <fmt/format.h>

#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "plimsoll/base/error.h"
#include "plimsoll/base/file.h"
#include "plimsoll/plan/cost.h"
#include "plimsoll/program/op.h"

namespace plimsoll::plan {
namespace {

using nlohmann::json;
using program::Op;
using program::Value;

constexpr int kVersion = 1;

// The processor as the system names it: times of one are no times of another.
std::string machine_name() {
  std::ifstream info("/proc/cpuinfo");
  for (std::string line; std::getline(info, line);) {
    if (line.starts_with("model name")) return line.substr(line.find(':') + 1);
  }
  return "unknown";
}

std::string operand_text(const program::ValueInfo& value) {
  return value.view ? value.type.text() + value.view->strides.text() : value.type.text();
}

CostTable parse_costs(const std::string& text) {
  const json read = json::parse(text);
  if (read.at("plimsoll_costs") != kVersion) throw InputError({}, "it is of another version");
  if (read.at("machine") != machine_name()) throw InputError({}, "it is of another machine");
  CostTable table = read.at("seconds").get<CostTable>();
  for (const auto& [key, seconds] : table) {
    if (!std::isfinite(seconds) || seconds < 0) throw InputError({}, fmt::format("a time is {}", seconds));
  }
  return table;
}

}  // namespace

std::string cost_key(const kernels::Lowered& lowered, int32_t place) {
  const program::Program& program = lowered.program;
  const Op& op = program.ops[static_cast<size_t>(place)];
  std::string key = fmt::format("{}/{}(", op.def->name, lowered.threads);
  for (const Value input : op.inputs) key += operand_text(program[input]) + ";";
  key += ")";
  for (const Value output : op.outputs) key += output ? program[output].type.text() + ";" : "_;";
  for (size_t i = 0; i < op.attributes.size(); ++i) {
    key += fmt::format(" {}={}", op.def->attributes[i].name, op.attributes[i].text());
  }
  return key;
}

Costs costs_of(const kernels::Lowered& lowered, const CostTable& table) {
  Costs costs{roofline_seconds(lowered), 0, 0};
  for (size_t op = 0; op < costs.seconds.size(); ++op) {
    if (!lowered.ops[op].kernel.bind) continue;
    const auto found = table.find(cost_key(lowered, static_cast<int32_t>(op)));
    if (found != table.end()) costs.seconds[op] = found->second;
    (found != table.end() ? costs.measured_s : costs.estimated_s) += costs.seconds[op];
  }
  return costs;
}

std::string cost_cache_path() {
  const char* cache = std::getenv("XDG_CACHE_HOME");
  if (cache != nullptr && *cache != '\0') return std::string(cache) + "/plimsoll/costs.json";
  const char* home = std::getenv("HOME");
  if (home != nullptr && *home != '\0') return std::string(home) + "/.cache/plimsoll/costs.json";
  return "";
}

LoadedCosts load_costs(const std::string& path) {
  std::error_code absent;
  if (path.empty() || !std::filesystem::exists(path, absent)) return {};
  try {
    return {parse_costs(read_file(path)), ""};
  } catch (const std::exception& error) {
    return {{}, fmt::format("the cost cache {} is ignored and will be written anew: {}", path, error.what())};
  }
}

void save_costs(const std::string& path, const CostTable& table) {
  std::error_code failed;
  std::filesystem::create_directories(std::filesystem::path(path).parent_path(), failed);
  const json written = {{"plimsoll_costs", kVersion}, {"machine", machine_name()}, {"seconds", table}};
  write_file(path, written.dump(1));
}

}  // namespace plimsoll::plan
