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

constexpr int kVersion = 2;

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
  CostTable table;
  for (const auto& [key, op] : read.at("ops").items()) {
    const MeasuredOp measured{op.at("seconds"), op.at("flops"), op.at("bytes")};
    if (!std::isfinite(measured.seconds) || measured.seconds < 0 || measured.flops < 0 || measured.bytes < 0) {
      throw InputError({}, fmt::format("{} takes {}", key, op.dump()));
    }
    table[key] = measured;
  }
  return table;
}

// The op and its threads, with which every key begins.
std::string family_of(const kernels::Lowered& lowered, const Op& op) {
  return fmt::format("{}/{}(", op.def->name, lowered.threads);
}

double log_ratio(double a, double b) { return std::abs(std::log((a + 1) / (b + 1))); }

// How unlike two uses of an op are: by their size, and more so by their arithmetic for each byte.
double distance(const MeasuredOp& known, const kernels::LoweredOp& op) {
  constexpr double kWeightOfIntensity = 4;
  const auto flops = static_cast<double>(op.flops);
  const auto bytes = static_cast<double>(op.bytes);
  const auto known_flops = static_cast<double>(known.flops);
  const auto known_bytes = static_cast<double>(known.bytes);
  return log_ratio(bytes, known_bytes) +
         kWeightOfIntensity * log_ratio(flops / (bytes + 1), known_flops / (known_bytes + 1));
}

// The measured use of the same op that is most like this one.
const MeasuredOp* most_like(const CostTable& table, const kernels::LoweredOp& op, const std::string& family) {
  const MeasuredOp* nearest = nullptr;
  for (auto it = table.lower_bound(family); it != table.end() && it->first.starts_with(family); ++it) {
    if (nearest == nullptr || distance(it->second, op) < distance(*nearest, op)) nearest = &it->second;
  }
  return nearest;
}

}  // namespace

std::string cost_key(const kernels::Lowered& lowered, int32_t place) {
  const program::Program& program = lowered.program;
  const Op& op = program.ops[static_cast<size_t>(place)];
  std::string key = family_of(lowered, op);
  for (const Value input : op.inputs) key += operand_text(program[input]) + ";";
  key += ")";
  for (const Value output : op.outputs) key += output ? program[output].type.text() + ";" : "_;";
  for (size_t i = 0; i < op.attributes.size(); ++i) {
    key += fmt::format(" {}={}", op.def->attributes[i].name, op.attributes[i].text());
  }
  return key;
}

Costs costs_of(const kernels::Lowered& lowered, const CostTable& table) {
  Costs costs{roofline_seconds(lowered)};
  for (size_t i = 0; i < costs.seconds.size(); ++i) {
    const kernels::LoweredOp& op = lowered.ops[i];
    if (!op.kernel.bind) continue;
    double& seconds = costs.seconds[i];
    if (const auto found = table.find(cost_key(lowered, static_cast<int32_t>(i))); found != table.end()) {
      seconds = found->second.seconds;
      costs.measured_s += seconds;
    } else if (const auto* like = most_like(table, op, family_of(lowered, lowered.program.ops[i]))) {
      seconds *= like->seconds / roofline_seconds(like->flops, like->bytes, lowered.threads);
      costs.scaled_s += seconds;
    } else {
      costs.estimated_s += seconds;
    }
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
  json ops = json::object();
  for (const auto& [key, op] : table) {
    ops[key] = {{"seconds", op.seconds}, {"flops", op.flops}, {"bytes", op.bytes}};
  }
  const json written = {{"plimsoll_costs", kVersion}, {"machine", machine_name()}, {"ops", std::move(ops)}};
  write_file(path, written.dump(1));
}

}  // namespace plimsoll::plan
