#include "plimsoll/explain/context.h"

#include <algorithm>
#include <array>
#include <initializer_list>

#include "plimsoll/base/bytes.h"
#include "plimsoll/explain/device_figures.h"
#include "plimsoll/explain/text_scan.h"
#include "plimsoll/explain/unit_limit.h"

namespace plimsoll::explain {
namespace {

using Marks = std::initializer_list<std::string_view>;

bool has_any(std::string_view text, Marks marks) {
  return std::any_of(marks.begin(), marks.end(), [&](std::string_view mark) { return contains(text, mark); });
}

std::string_view tail(std::string_view text, size_t most) {
  return text.substr(text.size() - std::min(text.size(), most));
}

// The last traceback and what follows it; a few lines when there is none.
std::string_view nearest(std::string_view before) {
  const size_t traceback = before.rfind("Traceback (most recent call last)");
  return traceback == std::string_view::npos ? tail(before, 4096) : before.substr(traceback);
}

Framework engine_of(std::string_view near) {
  if (has_any(near, {"/vllm/", "vllm.engine", "VllmWorker"})) return Framework::vllm;
  if (has_any(near, {"sglang/srt", "sglang.srt"})) return Framework::sglang;
  if (has_any(near, {"text_generation_server", "text_generation_launcher", "text_generation_client"})) {
    return Framework::tgi;
  }
  return Framework::unknown;
}

Task task_of(std::string_view near, Framework engine) {
  if (engine != Framework::unknown) return Task::inference;
  if (has_any(near, {".backward(", "in backward", "_engine_run_backward", "optimizer.step(", "training_step",
                     "train_step", "zero/stage", "GradScaler"})) {
    return Task::training;
  }
  if (has_any(near, {".generate(", "in generate", "in predict", ".predict(", "inference", "diffusers/", "/comfy/",
                     "ComfyUI", "uvicorn", "gradio", "decorate_context"})) {
    return Task::inference;
  }
  return has_any(near, {"train", "fit(", "finetune", "Trainer", "epoch", "Epoch"}) ? Task::training : Task::unknown;
}

Version version_after(std::string_view text, std::string_view mark) {
  const size_t at = text.rfind(mark);
  if (at == std::string_view::npos) return {};
  std::string_view rest = text.substr(at + mark.size());
  const auto major = leading_integer(rest);
  const size_t dot = rest.find('.');
  const auto minor = dot < 4 ? leading_integer(rest.substr(dot + 1)) : std::nullopt;
  const bool sane = major && minor && *major >= 0 && *major < 100 && *minor >= 0 && *minor < 100;
  return sane ? Version{static_cast<int>(*major), static_cast<int>(*minor)} : Version{};
}

Version torch_version(std::string_view before) {
  for (const std::string_view mark : {"PyTorch version: ", "torch==", "torch version ", "pytorch-", "torch-"}) {
    if (const Version version = version_after(before, mark); version != Version{}) return version;
  }
  return {};
}

// The file of the innermost frame; empty without a traceback.
std::string_view innermost_file(std::string_view near) {
  const size_t at = near.rfind("File \"");
  return at == std::string_view::npos ? std::string_view{} : near.substr(at + 6, near.find('"', at + 6) - at - 6);
}

// A bare error of the host's belongs to the library whose call was under way, or whose part could not be loaded.
Framework owner_of(std::string_view message, std::string_view near) {
  if (has_any(innermost_file(near), {"/numpy/", "\\numpy\\"})) return Framework::numpy;
  for (const std::string_view text : {message, near}) {
    if (has_any(text, {"/torch/", "\\torch\\", "torch/utils/data"})) return Framework::torch;
    if (has_any(text, {"/tensorflow/", "\\tensorflow\\", "_pywrap_tensorflow", "/keras/", "\\keras\\"})) {
      return Framework::tensorflow;
    }
  }
  return Framework::unknown;
}

struct Mark {
  std::string_view text;
  Framework framework;
};

// Whose a line or a frame is, by the names of packages and sources in it.
constexpr Mark kMarks[] = {{"cumem_allocator.cpp", Framework::vllm},
                           {"rror: CUDA out of memory", Framework::torch},
                           {"rror: HIP out of memory", Framework::torch},
                           {"rror: XPU out of memory", Framework::torch},
                           {"rror: NPU out of memory", Framework::torch},
                           {"/vllm/", Framework::vllm},
                           {"sglang/srt", Framework::sglang},
                           {"text_generation_", Framework::tgi},
                           {"torch_npu", Framework::torch},
                           {"torch_xla", Framework::torch},
                           {"bitsandbytes", Framework::torch},
                           {"xla_client/xla_", Framework::torch},
                           {"/torch/", Framework::torch},
                           {"\\torch\\", Framework::torch},
                           {"deepspeed", Framework::torch},
                           {"c10/", Framework::torch},
                           {"keras/src/backend/t", Framework::tensorflow},
                           {"tensorflow/", Framework::tensorflow},
                           {"jaxlib", Framework::jax},
                           {"/jax/", Framework::jax},
                           {"jax.errors", Framework::jax},
                           {"pjrt", Framework::jax},
                           {"mxnet", Framework::mxnet},
                           {"paddle", Framework::paddle},
                           {"xgboost", Framework::xgboost},
                           {"/rmm/", Framework::rmm},
                           {"RMM", Framework::rmm},
                           {"cudf", Framework::rmm},
                           {"cupy", Framework::cupy},
                           {"numba", Framework::numba},
                           {"onnxruntime", Framework::onnxruntime},
                           {"nvinfer", Framework::tensorrt},
                           {"[TRT]", Framework::tensorrt},
                           {"[TRT-LLM]", Framework::tensorrt},
                           {"[TensorRT]", Framework::tensorrt},
                           {"[TensorRT-LLM]", Framework::tensorrt},
                           {"ggml", Framework::ggml},
                           {"llama.cpp", Framework::ggml},
                           {"whisper_init", Framework::ggml},
                           {"raylet", Framework::ray},
                           {"org.apache.spark", Framework::spark},
                           {"Spark", Framework::spark},
                           {"slurm", Framework::slurm},
                           {"mlx", Framework::mlx},
                           {"OutOfMemoryError in replica", Framework::torch},
                           {"Triton Error [", Framework::torch},
                           {"CUDA driver error: ", Framework::torch},
                           {"HIP error: hip", Framework::torch},
                           {"nccl", Framework::torch},
                           {"NCCL", Framework::torch},
                           {"tensorflow.python", Framework::tensorflow},
                           {"XlaRuntimeError", Framework::jax},
                           {"MXNetError", Framework::mxnet},
                           {"llama runner", Framework::ggml}};

Framework marked(std::string_view text) {
  const auto mark = std::find_if(std::begin(kMarks), std::end(kMarks),
                                 [&](const Mark& candidate) { return contains(text, candidate.text); });
  return mark == std::end(kMarks) ? Framework::unknown : mark->framework;
}

// The line itself tells best, then the code that was running.
Framework author_of(const Failure& failure, std::string_view near) {
  const Framework by_line = marked(failure.message);
  if (by_line != Framework::unknown) return by_line;
  const Framework by_frame = marked(innermost_file(near));
  return by_frame == Framework::unknown && contains(near, "torch_npu") ? Framework::torch : by_frame;
}

// XLA runs under three frameworks, and its words are the same in all.
void tell_xla(std::string_view near, Failure& failure) {
  const std::string_view close = tail(near, 2048);
  if (has_any(failure.message, {"xla_client/xla_", "Bad StatusOr access"}) ||
      has_any(close,
              {"torch_xla", "xla_client/xla_", "Exception in device=TPU", "RuntimeError: Resource exhausted: From"})) {
    failure.framework = Framework::torch;
  } else if (has_any(close, {"keras/src/backend/tensorflow", "tensorflow/python", "-packages/tensorflow/"})) {
    failure.framework = Framework::tensorflow;
  }
}

constexpr std::string_view kJava = "Java";

bool speaks_of_spark(std::string_view text) {
  return has_any(text, {"spark", "Spark", "TaskSetManager", "dispatcher-event-loop", "Py4J"});
}

// A heap that is full is Spark's only where Spark is spoken of.
void tell_java(std::string_view before, Failure& failure) {
  const bool heap = contains(failure.message, "java.lang.OutOfMemoryError");
  if (!heap || speaks_of_spark(failure.message) || speaks_of_spark(tail(before, 4096))) return;
  failure.framework = Framework::unknown;
  failure.subject = kJava;
}

// A library's handle is PyTorch's only where PyTorch speaks.
void tell_library(std::string_view near, Failure& failure) {
  const bool torch = contains(failure.message, "RuntimeError: CUDA error") ||
                     contains(failure.message, "when calling `") || has_any(near, {"/torch/", "\\torch\\"}) ||
                     contains(failure.message, "cuDNN error");
  if (torch || !contains(failure.message, "STATUS_")) return;
  const bool foreign = has_any(failure.message, {"encountered at: ", "unwrap()", "panicked", "raft"});
  Framework author = author_of(failure, near);
  if (author == Framework::unknown) author = marked(tail(near, 1024));
  if (foreign || author != Framework::unknown) failure.framework = author;
}

// PyTorch's word for what the driver said ends with it; a program that goes on with a source of its own is another.
void tell_driver(Failure& failure) {
  const auto rest = after(failure.message, "out of memory");
  const bool source = rest && has_any(*rest, {".cu", ".cpp", ".cc:", ".h:", ".hpp"});
  const bool known = has_any(failure.message, {"Error: CUDA error", "Error: HIP error", "ggml", "c10", "torch"});
  if (failure.says == Cause::unknown && source && !known) failure.framework = marked(failure.message);
}

// Words that name no memory speak of the one that the program works with.
void tell_fallback(std::string_view before, std::string_view near, Failure& failure) {
  failure.framework = author_of(failure, near);
  if (failure.framework != Framework::unknown) failure.headline = "Memory was refused: \"{subject}\"";
  if (!failure.memory_is_assumed) return;
  const bool device = has_any(tail(before, 1024), {"cuda", "CUDA", "gpu", "GPU", "ulkan", "npu", "NPU", "TPU", "HIP",
                                                   "_amd", "device", "Device", "Metal"});
  if (!device && failure.framework != Framework::torch && failure.framework != Framework::jax) return;
  failure.arena = Arena::device;
  failure.backend = Backend::unknown;
  failure.says = failure.requested_bytes ? Cause::device_full : Cause::unknown;
}

// "Limit: 10895179776", "InUse: 10867310592": they stand before the error when the log was cut.
void add_allocator_statistics(std::string_view before, Failure& failure) {
  const std::string_view near = tail(before, 4096);
  const size_t at = near.rfind("Limit: ");
  if (at == std::string_view::npos || failure.allowed_bytes) return;
  failure.allowed_bytes = size_after(near.substr(at), "Limit: ");
  failure.allocated_bytes = size_after(near.substr(at), "InUse: ");
}

bool is_device(const Failure& failure) {
  return failure.arena == Arena::device || failure.arena == Arena::device_direct;
}

// PyTorch's word for pinned memory that was refused is a CUDA error.
void tell_pinned(std::string_view before, Failure& failure) {
  std::string_view near = tail(before, 4096);
  if (const size_t end = near.rfind("out of memory"); end != std::string_view::npos) near.remove_prefix(end);
  failure.pinned_nearby =
      has_any(near, {"pin_memory", "pinned", "HostAlloc"}) || contains(failure.message, "pin_memory");
  if (has_any(failure.message, {"HostRegister", "HostAlloc", "hostRegister", "hostAlloc"}) && is_device(failure)) {
    failure.arena = Arena::pinned_host;
    failure.says.reset();
  }
  if (failure.framework != Framework::torch || failure.arena != Arena::device_direct || !failure.pinned_nearby) return;
  failure.arena = Arena::pinned_host;
  failure.says.reset();
}

// Metal's word is PyTorch's where its shaders are spoken of.
void tell_metal(std::string_view before, Failure& failure) {
  if (!contains(failure.message, "CommandBufferCallbackErrorOutOfMemory")) return;
  if (has_any(tail(before, 1024), {"Metal Performance Shaders", "/torch/"})) failure.framework = Framework::torch;
}

// SGLang tells what is free while it captures graphs: next to nothing is left when the driver refuses.
void tell_free(std::string_view before, Failure& failure) {
  const std::string_view near = tail(before, 4096);
  const size_t at = std::max(near.rfind("avail_mem=") + 1, near.rfind("avail mem=") + 1);  // npos + 1 is 0
  if (at == 0 || failure.says != Cause::unknown) return;
  failure.free_bytes = leading_size(near.substr(at + 9), Units::binary);
  if (!failure.free_bytes || *failure.free_bytes > kGiB) return;
  failure.says = Cause::device_full;
  failure.headline = "The driver refused memory, and {free} of the card was free";
}

}  // namespace

void add_context(std::string_view before, Failure& failure) {
  const std::string_view near = nearest(before);
  failure.place = user_frame_of_traceback(before);
  tell_pinned(before, failure);
  add_unit_limits(before, failure);
  if (failure.framework == Framework::torch && failure.arena == Arena::device_direct) tell_free(before, failure);
  if (failure.is_fallback) tell_fallback(before, near, failure);
  if (failure.framework == Framework::jax) tell_xla(near, failure);
  if (failure.framework == Framework::spark) tell_java(before, failure);
  if (failure.framework == Framework::torch && failure.arena == Arena::device_direct) {
    tell_library(near, failure);
    tell_driver(failure);
  }
  const bool shared = failure.arena == Arena::device || failure.arena == Arena::shared_memory;
  const bool nobodys = failure.framework == Framework::unknown && shared;
  if (nobodys && !failure.is_fallback) {
    failure.framework = marked(failure.message);
    tell_metal(before, failure);
  }
  const bool host = failure.arena == Arena::host || failure.arena == Arena::worker;
  if (failure.framework == Framework::unknown && host) {
    failure.framework = owner_of(failure.message, near);
    if (contains(near, "torch/utils/data")) failure.subject = "DataLoader workers";
  }
  if (failure.framework == Framework::torch) {
    failure.engine = engine_of(near);
    if (failure.engine == Framework::unknown) failure.engine = engine_of(failure.rank);
    const bool capture = has_any(failure.message, {"apture cuda graph failed", "apture CUDA graph failed"});
    if (capture) failure.framework = Framework::sglang;
    if (const Version version = torch_version(before); version != Version{}) failure.version = version;
  }
  const bool rocm = failure.framework == Framework::ggml && failure.backend != Backend::mps && contains(before, "ROCm");
  if (rocm) failure.backend = Backend::rocm;  // its sources say CUDA there too
  if (failure.task == Task::unknown) failure.task = task_of(near, failure.engine);
  const bool bfc = failure.framework == Framework::tensorflow || failure.framework == Framework::jax;
  if (bfc && is_device(failure)) add_allocator_statistics(before, failure);
}

void add_device_figures(std::string_view before, Failure& failure) {
  const bool bare = figures_of(failure).count == 0;
  if (!is_device(failure) || (!bare && failure.total_bytes)) return;
  const DeviceFigures figures = device_figures_in(before);
  if (bare) failure.device_told = figures.told || has_bytes(failure.message);
  failure.told_total_bytes = figures.total_bytes;
}

bool add_java_frame(std::string_view line, Failure& failure) {
  if (failure.subject != kJava || !contains(line, "at org.apache.spark")) return false;
  failure.framework = Framework::spark;
  failure.subject.clear();
  return true;
}

OptionalBytes announced_device_bytes(std::string_view line) {
  if (contains(line, "device:GPU:") && contains(line, "-> ")) {
    const auto megabytes = integer_after(line, " with ");
    if (megabytes && contains(line, " MB memory") && *megabytes > 0 && *megabytes < 1 << 24) return *megabytes * kMiB;
  }
  return std::nullopt;
}

}  // namespace plimsoll::explain
