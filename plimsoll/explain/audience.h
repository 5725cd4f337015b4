// Whom a message comes from and whom advice is for: the framework, the backend under it, the task, the version.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace plimsoll::explain {

enum class Framework : uint8_t {
  unknown,
  torch,
  tensorflow,
  jax,
  onnxruntime,
  mlx,
  ggml,  // llama.cpp and ollama
  rmm,
  numpy,
  kernel,
  plimsoll,
  cupy,
  numba,
  xgboost,
  paddle,
  mxnet,
  tensorrt,
  vllm,
  sglang,
  tgi,
  ray,
  dask,
  spark,
  slurm,
  kubernetes,  // and Docker
  systemd,
};
inline constexpr size_t kFrameworks = 26;
std::string_view name(Framework framework);  // "torch"

enum class Backend : uint8_t { unknown, cpu, cuda, rocm, mps, xpu, tpu, vulkan, npu };
inline constexpr size_t kBackends = 9;
std::string_view name(Backend backend);  // "cuda"

enum class Task : uint8_t { unknown, training, inference };
inline constexpr size_t kTasks = 3;
std::string_view name(Task task);  // "training"

// Of the framework; 0.0 when the input does not tell.
struct Version {
  int major = 0;
  int minor = 0;
  bool operator==(const Version&) const = default;
  bool operator<(const Version& other) const {
    return major != other.major ? major < other.major : minor < other.minor;
  }
  bool operator>=(const Version& other) const { return !(*this < other); }
};

}  // namespace plimsoll::explain
