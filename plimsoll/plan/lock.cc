#include "plimsoll/plan/lock.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "plimsoll/base/bytes.h"
#include "plimsoll/base/error.h"

namespace plimsoll::plan {
namespace {

using nlohmann::ordered_json;

constexpr int kVersion = 1;

LockEntry read_entry(const ordered_json& json) {
  const LockEntry entry{json.at("unplanned_bytes").get<int64_t>(), json.at("budget_bytes").get<int64_t>(),
                        json.at("planned_bytes").get<int64_t>()};
  if (entry.unplanned_bytes < 0 || entry.budget_bytes < 0 || entry.planned_bytes < 0) {
    throw ArgumentError("a size is negative");
  }
  return entry;
}

Lock read_entries(const ordered_json& json) {
  if (json.at("plimsoll_lock") != kVersion) throw ArgumentError("it is not of version 1");
  Lock lock;
  for (const auto& item : json.at("peaks").items()) lock[item.key()] = read_entry(item.value());
  return lock;
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
  try {
    return read_entries(ordered_json::parse(text));
  } catch (const ordered_json::exception& error) {
    throw InputError({.source = std::string(source)}, fmt::format("not a memory lock: {}", error.what()));
  } catch (const ArgumentError& error) {
    throw InputError({.source = std::string(source)}, fmt::format("not a memory lock: {}", error.what()));
  }
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
