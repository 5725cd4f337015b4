#include "plimsoll/device/cuda/nccl.h"

#include <fmt/format.h>

#include <cstdlib>

#include "plimsoll/device/cuda/library.h"

namespace plimsoll::cuda {
namespace {

constexpr std::string_view kInstall =
    "ranks on NVIDIA cards need NCCL 2.11 or later: install NVIDIA's package libnccl2, or pip's nvidia-nccl-cu13 or "
    "nvidia-nccl-cu12";

void* find(const Library& library, const char* name) {
  void* const symbol = dlsym(library.handle, name);
  if (symbol != nullptr) return symbol;
  throw NcclMissing(fmt::format("{} has no {}; {}", library.path, name, kInstall));
}

// "2.28.3" of 22803.
std::string version_text(int version) {
  return fmt::format("{}.{}.{}", version / 10000, version % 10000 / 100, version % 100);
}

}  // namespace

Nccl Nccl::load(const std::string& name) {
  // Arenas are pages that other processes cannot map: graphs must not try to register them.
  setenv("NCCL_GRAPH_REGISTER", "0", 0);
  const Library library = find_library({name});
  if (library.handle == nullptr) throw NcclMissing(fmt::format("{}; {}", library.path, kInstall));
  Nccl nccl;
  nccl.path = library.path;
#define PLIMSOLL_CUDA_FIND(member, name, parameters) \
  nccl.member = reinterpret_cast<decltype(nccl.member)>(find(library, name));
  PLIMSOLL_NCCL_CALLS(PLIMSOLL_CUDA_FIND)
#undef PLIMSOLL_CUDA_FIND
  nccl.error_text = reinterpret_cast<decltype(nccl.error_text)>(find(library, "ncclGetErrorString"));
  find_function(library.handle, "ncclGetLastError", nccl.last_error);
  int version = 0;
  nccl.check(nccl.get_version(&version), "ncclGetVersion");
  if (version >= kNcclLeastVersion) return nccl;
  throw NcclMissing(fmt::format("NCCL in {} is {}; {}", nccl.path, version_text(version), kInstall));
}

const Nccl& Nccl::get() {
  static const Nccl loaded = load("libnccl.so.2");
  return loaded;
}

std::string Nccl::version() const {
  int version = 0;
  check(get_version(&version), "ncclGetVersion");
  return version_text(version);
}

void Nccl::fail(int result, std::string_view doing) const {
  const char* const words = error_text(result);
  const char* const more = last_error != nullptr ? last_error(nullptr) : nullptr;
  const bool has_more = more != nullptr && *more != 0;
  throw NcclError(fmt::format("{} failed: {}{}{}", doing, words != nullptr ? words : fmt::format("error {}", result),
                              has_more ? ": " : "", has_more ? more : ""),
                  result);
}

int nccl_type(DType dtype) {
  switch (dtype) {
    case DType::f32:
      return kNcclFloat32;
    case DType::f64:
      return kNcclFloat64;
    case DType::f16:
      return kNcclFloat16;
    case DType::bf16:
      return kNcclBfloat16;
    case DType::i64:
      return kNcclInt64;
    default:
      throw ArgumentError(fmt::format("ranks on cards sum f32, f64, f16, bf16 and i64, not {}", name(dtype)));
  }
}

}  // namespace plimsoll::cuda
