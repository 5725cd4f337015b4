#include "plimsoll/device/cuda/library.h"

#include <dlfcn.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <system_error>

namespace plimsoll::cuda {
namespace {

namespace fs = std::filesystem;

std::vector<std::string> split_at_colons(const char* text) {
  std::vector<std::string> parts;
  std::string rest = text == nullptr ? "" : text;
  while (!rest.empty()) {
    const size_t end = rest.find(':');
    if (end != 0) parts.push_back(rest.substr(0, end));
    rest = end == std::string::npos ? "" : rest.substr(end + 1);
  }
  return parts;
}

std::vector<fs::path> children(const fs::path& folder) {
  std::vector<fs::path> found;
  std::error_code error;
  for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error)) {
    found.push_back(it->path());
  }
  std::sort(found.begin(), found.end());
  return found;
}

// <root>/lib/python3.x/site-packages/nvidia/<package>/lib, and torch's own folder.
void add_packages(const fs::path& root, std::vector<std::string>& folders) {
  for (const fs::path& python : children(root / "lib")) {
    if (!python.filename().string().starts_with("python3")) continue;
    for (const char* packages : {"site-packages", "dist-packages"}) {
      for (const fs::path& package : children(python / packages / "nvidia")) folders.push_back(package / "lib");
      folders.push_back(python / packages / "torch" / "lib");
    }
  }
}

// Where `python3` on the PATH has its packages.
std::vector<fs::path> python_roots() {
  std::vector<fs::path> roots;
  if (const char* environment = std::getenv("VIRTUAL_ENV")) roots.emplace_back(environment);
  for (const std::string& folder : split_at_colons(std::getenv("PATH"))) {
    std::error_code error;
    if (fs::exists(fs::path(folder) / "python3", error)) roots.push_back(fs::path(folder).parent_path());
  }
  return roots;
}

}  // namespace

std::vector<std::string> library_folders() {
  std::vector<std::string> folders = {"/usr/local/cuda/lib64", "/usr/local/cuda/targets/x86_64-linux/lib"};
  for (const fs::path& other : children("/usr/local")) {
    if (other.filename().string().starts_with("cuda-")) folders.push_back(other / "lib64");
  }
  for (const fs::path& root : python_roots()) add_packages(root, folders);
  return folders;
}

Library find_library(const std::vector<std::string>& names) {
  for (const std::string& folder : split_at_colons(std::getenv("PLIMSOLL_CUDA_LIBRARIES"))) {
    for (const std::string& name : names) {
      const std::string path = fmt::format("{}/{}", folder, name);
      if (void* handle = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL)) return {handle, path};
    }
  }
  for (const std::string& name : names) {
    if (void* handle = dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL)) return {handle, name};
  }
  for (const std::string& folder : library_folders()) {
    for (const std::string& name : names) {
      const std::string path = fmt::format("{}/{}", folder, name);
      std::error_code error;
      if (!fs::exists(path, error)) continue;
      if (void* handle = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL)) return {handle, path};
    }
  }
  return {nullptr,
          fmt::format("{} not found: install CUDA's libraries, or name their folder in PLIMSOLL_CUDA_LIBRARIES",
                      fmt::join(names, " or "))};
}

}  // namespace plimsoll::cuda
