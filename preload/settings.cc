#include "preload/settings.h"

#include <fmt/format.h>

#include <cstdlib>

#include "plimsoll/base/bytes.h"
#include "plimsoll/base/error.h"
#include "plimsoll/device/cuda/bus_id.h"

namespace plimsoll::preload {
namespace {

std::string text(const char* name) {
  const char* const value = std::getenv(name);
  return value != nullptr ? value : "";
}

int64_t bytes_of(const char* name) {
  const std::string value = text(name);
  if (value.empty()) return 0;
  try {
    return parse_bytes(value);
  } catch (const Error& error) {
    throw ArgumentError(fmt::format("{}: {}", name, error.what()));
  }
}

std::vector<Settings::Used> parse_used(std::string_view list) {
  std::vector<Settings::Used> used;
  while (!list.empty()) {
    const std::string_view item = list.substr(0, list.find(','));
    list.remove_prefix(std::min(list.size(), item.size() + 1));
    const size_t equals = item.find('=');
    if (equals == std::string_view::npos) continue;
    used.push_back({cuda::normal_bus_id(item.substr(0, equals)), parse_bytes(item.substr(equals + 1))});
  }
  return used;
}

}  // namespace

Settings Settings::from_environment() {
  Settings settings;
  settings.budget_bytes = bytes_of("PLIMSOLL_BUDGET");
  settings.events = bytes_of("PLIMSOLL_EVENTS");
  settings.folder = text("PLIMSOLL_EXEC_DIR");
  if (const std::string driver = text("PLIMSOLL_CUDA_DRIVER"); !driver.empty()) settings.driver = driver;
  settings.used_before = parse_used(text("PLIMSOLL_DEVICE_USED"));
  return settings;
}

int64_t Settings::baseline_bytes(std::string_view bus_id) const {
  const std::string wanted = cuda::normal_bus_id(bus_id);
  for (const Used& used : used_before) {
    if (used.bus_id == wanted) return used.bytes;
  }
  return -1;
}

}  // namespace plimsoll::preload
