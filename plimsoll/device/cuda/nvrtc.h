// NVIDIA's run-time compiler, by dlopen: CUDA C++ to machine code of one architecture. It needs no GPU.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace plimsoll::cuda {

class Nvrtc {
 public:
  // UnsupportedError that says where it was sought.
  static const Nvrtc& get();
  // Nothing where it is not installed.
  static const Nvrtc* find();

  const std::string& version() const { return version_; }  // "13.0"
  const std::string& path() const { return path_; }

  // The machine code for `architecture` ("sm_90"). SystemError with the compiler's words.
  std::string compile(const std::string& text, const std::string& name, const std::string& architecture) const;

 private:
  static std::optional<Nvrtc> load(std::string& why);

  using Program = void*;
  int (*version_of_)(int*, int*) = nullptr;
  int (*create_)(Program*, const char*, const char*, int, const char* const*, const char* const*) = nullptr;
  int (*destroy_)(Program*) = nullptr;
  int (*compile_)(Program, int, const char* const*) = nullptr;
  int (*log_size_)(Program, size_t*) = nullptr;
  int (*log_)(Program, char*) = nullptr;
  int (*cubin_size_)(Program, size_t*) = nullptr;
  int (*cubin_)(Program, char*) = nullptr;
  std::string version_;
  std::string path_;
};

}  // namespace plimsoll::cuda
