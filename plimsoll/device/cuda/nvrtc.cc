#include "plimsoll/device/cuda/nvrtc.h"

#include <fmt/format.h>

#include <array>

#include "plimsoll/base/error.h"
#include "plimsoll/device/cuda/library.h"

namespace plimsoll::cuda {
namespace {

struct Loaded {
  std::optional<Nvrtc> compiler;
  std::string why;
};

}  // namespace

std::optional<Nvrtc> Nvrtc::load(std::string& why) {
  const Library library = find_library({"libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so"});
  if (library.handle == nullptr) {
    why = library.path;
    return std::nullopt;
  }
  Nvrtc made;
  made.path_ = library.path;
  const bool complete = find_function(library.handle, "nvrtcVersion", made.version_of_) &&
                        find_function(library.handle, "nvrtcCreateProgram", made.create_) &&
                        find_function(library.handle, "nvrtcDestroyProgram", made.destroy_) &&
                        find_function(library.handle, "nvrtcCompileProgram", made.compile_) &&
                        find_function(library.handle, "nvrtcGetProgramLogSize", made.log_size_) &&
                        find_function(library.handle, "nvrtcGetProgramLog", made.log_) &&
                        find_function(library.handle, "nvrtcGetCUBINSize", made.cubin_size_) &&
                        find_function(library.handle, "nvrtcGetCUBIN", made.cubin_);
  int major = 0;
  int minor = 0;
  if (!complete || made.version_of_(&major, &minor) != 0) {
    why = fmt::format("{} is too old: version 11.4 or later is needed", library.path);
    return std::nullopt;
  }
  made.version_ = fmt::format("{}.{}", major, minor);
  return made;
}

const Nvrtc* Nvrtc::find() {
  static std::string why;
  static const std::optional<Nvrtc> loaded = load(why);
  return loaded ? &*loaded : nullptr;
}

const Nvrtc& Nvrtc::get() {
  if (const Nvrtc* found = find()) return *found;
  std::string why;
  load(why);
  throw UnsupportedError("CUDA kernels are compiled when they are first used, and there is no compiler: " + why);
}

std::string Nvrtc::compile(const std::string& text, const std::string& name, const std::string& architecture) const {
  Program program = nullptr;
  if (create_(&program, text.c_str(), name.c_str(), 0, nullptr, nullptr) != 0) {
    throw SystemError("nvrtcCreateProgram failed for " + name);
  }
  const std::string target = "--gpu-architecture=" + architecture;
  const std::array<const char*, 3> options = {target.c_str(), "--std=c++17", "-w"};
  const int result = compile_(program, static_cast<int>(options.size()), options.data());
  size_t bytes = 0;
  if (result != 0) {
    log_size_(program, &bytes);
    std::string log(bytes, '\0');
    log_(program, log.data());
    destroy_(&program);
    throw SystemError(fmt::format("kernel {} does not compile for {}: {}", name, architecture, log));
  }
  cubin_size_(program, &bytes);
  std::string code(bytes, '\0');
  cubin_(program, code.data());
  destroy_(&program);
  return code;
}

}  // namespace plimsoll::cuda
