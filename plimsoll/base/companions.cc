#include "plimsoll/base/companions.h"

#include <fmt/format.h>

#include <cstdlib>
#include <initializer_list>
#include <string_view>

#include "plimsoll/base/error.h"

namespace plimsoll {
namespace {

namespace fs = std::filesystem;

// The first of `places` (from the binary's folder on) that has `file` in it. The environment variable `overriding`
// names another.
fs::path find_companion(std::string_view file, const char* overriding, std::initializer_list<std::string_view> places) {
  if (const char* const named = std::getenv(overriding); named != nullptr && *named != '\0') {
    if (fs::exists(fs::path(named) / file)) return named;
    throw UnsupportedError(fmt::format("{} is {}, which has no {}", overriding, named, file));
  }
  const fs::path binary = fs::read_symlink("/proc/self/exe").parent_path();
  for (const std::string_view place : places) {
    const fs::path folder = (binary / place).lexically_normal();
    if (fs::exists(folder / file)) return folder;
  }
  throw UnsupportedError(
      fmt::format("{} was not found near {}: set {} to its folder", file, binary.string(), overriding));
}

}  // namespace

fs::path python_folder() {
  return find_companion("plimsoll/exec_hook.py", "PLIMSOLL_PYTHON_DIR",
                        {"../share/plimsoll/python", "../..", "../../../python"});
}

fs::path simulation_library() {
  constexpr std::string_view kName = "libplimsoll_simcuda.so";
  return find_companion(kName, "PLIMSOLL_PRELOAD_DIR", {"../lib/plimsoll", ".", "../python"}) / kName;
}

fs::path preload_library() {
  constexpr std::string_view kName = "libplimsoll_preload.so";
  return find_companion(kName, "PLIMSOLL_PRELOAD_DIR", {"../lib/plimsoll", ".", "../preload"}) / kName;
}

}  // namespace plimsoll
