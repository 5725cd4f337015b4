#include "plimsoll/plan/manifest.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "plimsoll/base/bytes.h"
#include "plimsoll/plan/json_node.h"

namespace plimsoll::plan {
namespace {

using nlohmann::ordered_json;

constexpr int kVersion = 1;

ManifestEntry read_entry(const JsonNode& node) {
  return {node["unplanned_bytes"].integer(), node["budget_bytes"].integer(), node["planned_bytes"].integer()};
}

std::string growth(std::string_view what, int64_t before, int64_t now) {
  return fmt::format("{} was {} ({} bytes) and is {} ({} bytes): {} more", what, format_bytes(before),
                     format_count(before), format_bytes(now), format_count(now), format_bytes(now - before));
}

}  // namespace

std::string write_manifest(const Manifest& manifest) {
  ordered_json peaks = ordered_json::object();
  for (const auto& [setting, entry] : manifest) {
    peaks[setting] = {{"unplanned_bytes", entry.unplanned_bytes},
                      {"budget_bytes", entry.budget_bytes},
                      {"planned_bytes", entry.planned_bytes}};
  }
  return write_json({{"plimsoll_manifest", kVersion}, {"peaks", peaks}}, 2);
}

Manifest read_manifest(std::string_view text, std::string_view source) {
  const ordered_json json = parse_json(text, source);
  const JsonNode root(json, "manifest", std::string(source));
  root["plimsoll_manifest"].require_version(kVersion);
  Manifest manifest;
  root["peaks"].for_each_pair(
      [&](const std::string& setting, const JsonNode& entry) { manifest[setting] = read_entry(entry); });
  return manifest;
}

std::string find_growth(const Manifest& manifest, const std::string& setting, const ManifestEntry& now) {
  const auto found = manifest.find(setting);
  if (found == manifest.end()) return fmt::format("{} is not in the manifest; write it with --manifest", setting);
  const ManifestEntry& before = found->second;
  if (now.unplanned_bytes > before.unplanned_bytes) {
    return growth(fmt::format("the peak of {}", setting), before.unplanned_bytes, now.unplanned_bytes);
  }
  if (now.budget_bytes == before.budget_bytes && now.planned_bytes > before.planned_bytes) {
    return growth(fmt::format("the planned peak of {}", setting), before.planned_bytes, now.planned_bytes);
  }
  return "";
}

}  // namespace plimsoll::plan
