// Words that only one audience understands. The remedies' tables do not know this list: it says from outside whom a
// text may reach.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "plimsoll/explain/diagnosis.h"

namespace plimsoll::explain {

struct Audience {
  Framework framework = Framework::unknown;
  Framework engine = Framework::unknown;
  Backend backend = Backend::unknown;
  Task task = Task::unknown;
};

struct Word {
  std::string_view text;
  std::vector<Framework> frameworks = {};  // the only ones that it is for; none: any
  std::vector<Backend> backends = {};
  bool training_only = false;
};

inline const std::vector<Word>& words() {
  using F = Framework;
  using B = Backend;
  static const std::vector<Word> kWords = {
      {"torch.", {F::torch}},
      {"PYTORCH_", {F::torch}},
      {"DataLoader", {F::torch}},
      {"backward()", {F::torch}, {}, true},
      {"optimizer", {F::torch}, {}, true},
      {"accumulat", {F::torch}, {}, true},
      {"checkpoint(", {F::torch, F::jax}, {}, true},
      {"PYTORCH_CUDA_", {F::torch}, {B::cuda, B::unknown}},
      {"PYTORCH_HIP_", {F::torch}, {B::rocm}},
      {"PYTORCH_MPS_", {F::torch}, {B::mps}},
      {"expandable_segments", {F::torch}, {B::cuda, B::rocm, B::unknown}},
      {"torch.cuda", {F::torch}, {B::cuda, B::rocm, B::unknown}},
      {"torch.mps", {F::torch}, {B::mps}},
      {"torch.xpu", {F::torch}, {B::xpu}},
      {"UR_L0_", {F::torch}, {B::xpu}},
      {"nvidia-smi", {}, {B::cuda, B::unknown}},
      {"CUDA_VISIBLE_DEVICES", {}, {B::cuda, B::unknown}},
      {"CUDA_", {}, {B::cuda, B::rocm, B::unknown}},
      {"CUDA_LAUNCH_BLOCKING", {}, {B::cuda, B::unknown}},
      {"NCCL", {F::torch}, {B::cuda, B::unknown}},
      {"CUBLAS", {F::torch}, {B::cuda, B::unknown}},
      {"cudnn", {F::torch, F::onnxruntime}, {B::cuda, B::unknown}},
      {"rocm-smi", {}, {B::rocm}},
      {"HIP_VISIBLE", {}, {B::rocm}},
      {"xpu-smi", {}, {B::xpu}},
      {"TF_", {F::tensorflow}},
      {"tf.", {F::tensorflow}},
      {"model.fit", {F::tensorflow}, {}, true},
      {"jax.", {F::jax}},
      {"XLA_PYTHON_CLIENT", {F::jax}, {B::cuda, B::rocm, B::unknown}},
      {"--mem=", {F::slurm}},
      {"SBATCH", {F::slurm}},
      {"resources.limits", {F::kubernetes, F::kernel}},
      {"MemoryMax", {F::systemd, F::kernel}},
      {"RAY_", {F::ray}},
      {"ray.", {F::ray}},
      {"memory_limit", {F::dask}},
      {"spark.", {F::spark}},
      {"gpu_memory_utilization", {F::vllm}},
      {"max_model_len", {F::vllm}},
      {"mem-fraction-static", {F::sglang}},
      {"max-batch-prefill", {F::tgi}},
      {"n-gpu-layers", {F::ggml}},
      {"iogpu", {F::ggml, F::mlx}, {B::mps}},
      {"mx.", {F::mlx}},
      {"cupy.", {F::cupy}},
      {"rmm.", {F::rmm}},
      {"numba.", {F::numba}},
      {"xgboost.", {F::xgboost}},
      {"np.", {F::numpy}},
      {"FLAGS_", {F::paddle}},
      {"MXNET_", {F::mxnet}},
      {"CUDAExecutionProvider", {F::onnxruntime}},
      {"trt.", {F::tensorrt}},
      {"--budget", {F::plimsoll}},
  };
  return kWords;
}

// The first word of a remedy that is not for this audience; empty when all are.
inline std::string_view wrong_word(const Remedy& remedy, const Audience& audience) {
  const std::string text = remedy.action + "\n" + remedy.setting;
  const auto among = [](const auto& list, auto value) {
    return list.empty() || std::find(list.begin(), list.end(), value) != list.end();
  };
  for (const Word& word : words()) {
    const bool whole = text.find(" " + std::string(word.text)) != std::string::npos ||
                       text.find("\n" + std::string(word.text)) != std::string::npos ||
                       text.find("(" + std::string(word.text)) != std::string::npos || text.starts_with(word.text);
    if (!whole) continue;
    const bool framework = among(word.frameworks, audience.framework) ||
                           (audience.engine != Framework::unknown && among(word.frameworks, audience.engine));
    const bool task = !word.training_only || audience.task != Task::inference;
    if (!framework || !among(word.backends, audience.backend) || !task) return word.text;
  }
  return {};
}

}  // namespace plimsoll::explain
