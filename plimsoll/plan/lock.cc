#include "plimsoll/plan/lock.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "plimsoll/base/bytes.h"
#include "plimsoll/plan/json_node.h"

namespace plimsoll::plan {
namespace {

using nlohmann::ordered_json;

constexpr int kVersion = 1;

LockEntry read_entry(const JsonNode& node) {
  return {node["unplanned_bytes"].integer(), node["budget_bytes"].integer(), node["planned_bytes"].integer()};
}

std::string growth(std::string_view what, int64_t before, int64_t now) {
  return fmt::format("{} was {} ({} bytes) and is {} ({} bytes): {} more", what, format_bytes(before),
                     format_count(before), format_bytes(now), format_count(now), format_bytes(now - before));
}

}  // namespace

std::string write_lock(const Lock& lock) {
  ordered_json peaks = ordered_json::object();
  for (const auto& [setting, entry] : lock) {
    peaks[setting] = {{"unplanned_bytes", entry.unplanned_bytes},
                      {"budget_bytes", entry.budget_bytes},
                      {"planned_bytes", entry.planned_bytes}};
  }
  return ordered_json{{"plimsoll_lock", kVersion}, {"peaks", peaks}}.dump(2) + "\n";
}

Lock read_lock(std::string_view text, std::string_view source) {
  const ordered_json json = parse_json(text, source);
  const JsonNode root(json, "lock", std::string(source));
  root["plimsoll_lock"].require_version(kVersion);
  Lock lock;
  root["peaks"].for_each_pair(
      [&](const std::string& setting, const JsonNode& entry) { lock[setting] = read_entry(entry); });
  return lock;
}

std::string find_growth(const Lock& lock, const std::string& setting, const LockEntry& now) {
  const auto found = lock.find(setting);
  if (found == lock.end()) return fmt::format("{} is not in the lock; write it with --lock", setting);
  const LockEntry& before = found->second;
  if (now.unplanned_bytes > before.unplanned_bytes) {
    return growth(fmt::format("the peak of {}", setting), before.unplanned_bytes, now.unplanned_bytes);
  }
  if (now.budget_bytes == before.budget_bytes && now.planned_bytes > before.planned_bytes) {
    return growth(fmt::format("the planned peak of {}", setting), before.planned_bytes, now.planned_bytes);
  }
  return "";
}

}  // namespace plimsoll::plan
