// A memory manifest: predicted peaks by model and setting, kept beside the sources, so that a change that raises one
// is seen before it runs.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace plimsoll::plan {

struct ManifestEntry {
  int64_t unplanned_bytes = 0;
  int64_t budget_bytes = 0;   // 0: none was asked for
  int64_t planned_bytes = 0;  // within the budget; 0 when none was asked for

  bool operator==(const ManifestEntry&) const = default;
};

// By the setting as text: "resnet50 batch=32 train adam f32".
using Manifest = std::map<std::string, ManifestEntry>;

// JSON, version 1. InputError says what is wrong with a text.
std::string write_manifest(const Manifest& manifest);
Manifest read_manifest(std::string_view text, std::string_view source);

// One sentence when an entry needs more than the manifest says, or is not in it; empty when all is well.
std::string find_growth(const Manifest& manifest, const std::string& setting, const ManifestEntry& now);

}  // namespace plimsoll::plan
