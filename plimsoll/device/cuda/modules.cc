#include "plimsoll/device/cuda/modules.h"

#include <fmt/format.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "plimsoll/base/error.h"
#include "plimsoll/device/cuda/nvrtc.h"

namespace plimsoll::cuda {
namespace {

namespace fs = std::filesystem;

// 128 bits of FNV-1a, as two of 64 with different beginnings.
std::string hash_of(const std::string& text) {
  uint64_t a = 0xcbf29ce484222325ULL;
  uint64_t b = 0x84222325cbf29ce4ULL;
  for (const char c : text) {
    a = (a ^ static_cast<uint8_t>(c)) * 0x100000001b3ULL;
    b = (b ^ static_cast<uint8_t>(c)) * 0x100000001b3ULL + 0x9e3779b97f4a7c15ULL;
  }
  return fmt::format("{:016x}{:016x}", a, b);
}

std::string cache_folder() {
  if (const char* given = std::getenv("PLIMSOLL_CUDA_CACHE")) return given;
  if (const char* cache = std::getenv("XDG_CACHE_HOME")) return std::string(cache) + "/plimsoll/cuda";
  if (const char* home = std::getenv("HOME")) return std::string(home) + "/.cache/plimsoll/cuda";
  return {};
}

std::string read_whole(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

// Under another name first, so that nobody reads half of it.
void write_whole(const std::string& path, const std::string& content) {
  static std::atomic<int> count{0};
  std::error_code error;
  fs::create_directories(fs::path(path).parent_path(), error);
  const std::string part = fmt::format("{}.{}.{}", path, getpid(), count++);
  {
    std::ofstream file(part, std::ios::binary);
    file.write(content.data(), static_cast<std::streamsize>(content.size()));
    if (!file) return;
  }
  fs::rename(part, path, error);
}

}  // namespace

std::string machine_code(const std::string& text, const std::string& name, const std::string& architecture) {
  const std::string folder = cache_folder();
  const Nvrtc* compiler = Nvrtc::find();
  // Without a compiler, what an earlier one made will do.
  const std::string version = compiler != nullptr ? compiler->version() : "13.0";
  const std::string path = fmt::format("{}/{}.cubin", folder, hash_of(version + "\n" + architecture + "\n" + text));
  if (!folder.empty()) {
    std::string cached = read_whole(path);
    if (!cached.empty()) return cached;
  }
  std::string code = Nvrtc::get().compile(text, name, architecture);
  if (!folder.empty()) write_whole(path, code);
  return code;
}

FunctionHandle Modules::function(const std::string& text, const std::string& name, const char* function) {
  const std::lock_guard lock(mutex_);
  ModuleHandle& module = modules_[text];
  if (module == nullptr) {
    const std::string code = machine_code(text, name, architecture_);
    driver_.check(compute_.module_load_data(&module, code.data()), fmt::format("loading kernel {}", name));
  }
  FunctionHandle& found = functions_[{module, function}];
  if (found == nullptr) {
    driver_.check(compute_.module_get_function(&found, module, function),
                  fmt::format("finding {} in kernel {}", function, name));
  }
  return found;
}

}  // namespace plimsoll::cuda
