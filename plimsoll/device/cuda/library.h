// NVIDIA's libraries by dlopen, wherever they are installed: the system's paths, a CUDA toolkit, the wheels that pip
// puts beside PyTorch.
#pragma once

#include <dlfcn.h>

#include <string>
#include <vector>

namespace plimsoll::cuda {

struct Library {
  void* handle = nullptr;  // stays loaded; null: not found
  std::string path;        // as found, or why not
};

// The first of `names` ("libnvrtc.so.13") that loads, each sought in turn under PLIMSOLL_CUDA_LIBRARIES (folders with
// ':' between them), in the system's paths, in CUDA's folders and in the packages of this machine's Python.
Library find_library(const std::vector<std::string>& names);

// A function of a library by its name; whether it has it.
template <class F>
bool find_function(void* library, const char* name, F& function) {
  function = reinterpret_cast<F>(dlsym(library, name));
  return function != nullptr;
}

// For lists of X(member, name, parameters): fills a member of `table`, and leaves with nothing where it is missing.
#define PLIMSOLL_CUDA_FIND_IN(library, table, member, name) \
  if (!find_function((library).handle, name, (table).member)) return std::nullopt;

// The folders that find_library looks into, in order, beside the system's.
std::vector<std::string> library_folders();

}  // namespace plimsoll::cuda
