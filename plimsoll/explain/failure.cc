#include "plimsoll/explain/failure.h"

#include <algorithm>
#include <array>

namespace plimsoll::explain {

std::string_view name(Framework framework) {
  constexpr std::array<std::string_view, 11> kNames = {"unknown", "torch", "tensorflow", "jax",    "onnxruntime", "mlx",
                                                       "ggml",    "rmm",   "numpy",      "kernel", "plimsoll"};
  return kNames[static_cast<size_t>(framework)];
}

OptionalBytes limit_bytes(const Failure& failure) {
  if (!failure.allowed_bytes) return failure.total_bytes;
  return failure.total_bytes ? std::min(*failure.allowed_bytes, *failure.total_bytes) : failure.allowed_bytes;
}

}  // namespace plimsoll::explain
