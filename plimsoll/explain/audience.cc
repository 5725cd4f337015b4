#include "plimsoll/explain/audience.h"

#include <array>

namespace plimsoll::explain {

std::string_view name(Framework framework) {
  constexpr std::array<std::string_view, kFrameworks> kNames = {
      "unknown", "torch",    "tensorflow", "jax",   "onnxruntime", "mlx",    "ggml",       "rmm",      "numpy",
      "kernel",  "plimsoll", "cupy",       "numba", "xgboost",     "paddle", "mxnet",      "tensorrt", "vllm",
      "sglang",  "tgi",      "ray",        "dask",  "spark",       "slurm",  "kubernetes", "systemd"};
  return kNames[static_cast<size_t>(framework)];
}

std::string_view name(Backend backend) {
  constexpr std::array<std::string_view, kBackends> kNames = {"unknown", "cpu", "cuda",   "rocm", "mps",
                                                              "xpu",     "tpu", "vulkan", "npu"};
  return kNames[static_cast<size_t>(backend)];
}

std::string_view name(Task task) {
  constexpr std::array<std::string_view, kTasks> kNames = {"unknown", "training", "inference"};
  return kNames[static_cast<size_t>(task)];
}

}  // namespace plimsoll::explain
