// PyTorch's caching allocator: its message in all forms since 1.0 (CUDA, HIP, XPU), the cudaMallocAsync backend's
// table, MPS, and the driver's and the host allocator's words. Single lines without figures are in
// plimsoll/explain/forms.
#include <algorithm>

#include "plimsoll/base/bytes.h"
#include "plimsoll/explain/failure.h"
#include "plimsoll/explain/text_scan.h"

namespace plimsoll::explain {
namespace {

constexpr size_t kLongestText = 4096;
constexpr Version kLastOldWording = {1, 4};  // at least; the wording was kept up to 2.0

Failure of(Arena arena, Backend backend) {
  Failure failure;
  failure.framework = Framework::torch;
  failure.arena = arena;
  failure.backend = backend;
  return failure;
}

void set(OptionalBytes& field, OptionalBytes value) {
  if (!field) field = value;
}

// "GPU 0 has a total", "(GPU 0; 11.93 GiB total"; the index can be blank.
std::string device_index(std::string_view text) {
  const auto number = integer_after(text, "GPU ");
  return number ? std::to_string(*number) : "";
}

// "Process 2006998 has 256.00 MiB memory in use.", once per process. WSL prints 2^34 GiB, which is no size.
void add_processes(std::string_view text, Failure& failure) {
  while (const auto rest = after(text, "Process ")) {
    text = *rest;
    const auto pid = leading_integer(text);
    const auto bytes = size_after(text.substr(0, 60), " has ");
    const bool known = std::any_of(failure.processes.begin(), failure.processes.end(), [&](const Holder& holder) {
      return pid && holder.name == "process " + std::to_string(*pid);
    });
    if (pid && bytes && !known && failure.processes.size() < 64)
      failure.processes.push_back({"process " + std::to_string(*pid), *bytes});
  }
}

// Before 1.8 "cached", later "reserved in total": both are live plus free in the allocator. Very old versions printed
// only the free part as cached, which shows in that it is less than what is allocated.
void add_reserved(std::string_view text, Failure& failure) {
  const auto reserved = size_before(text, " reserved in total by PyTorch");
  const auto cached = size_before(text, " cached)");
  if (failure.unallocated_bytes || !failure.allocated_bytes) return;
  if (reserved) failure.unallocated_bytes = std::max<int64_t>(0, *reserved - *failure.allocated_bytes);
  if (cached) {
    const bool is_total = *cached >= *failure.allocated_bytes;
    failure.unallocated_bytes = is_total ? *cached - *failure.allocated_bytes : *cached;
  }
}

Version version_of(std::string_view text) {
  if (contains(text, "PYTORCH_ALLOC_CONF")) return {2, 9};
  if (contains(text, "total capacity of ") || contains(text, "total capacty of ")) return {2, 1};
  if (contains(text, "max_split_size_mb") || contains(text, " allowed;")) return {1, 10};
  return contains(text, "reserved in total by PyTorch") || contains(text, "cached)") ? kLastOldWording : Version{};
}

// A figure stands there, but it is more than can be a size.
bool beyond_any_memory(std::string_view text, std::string_view marker) {
  const auto rest = after(text, marker);
  return rest && is_beyond_any_memory(*rest);
}

// Reads the clauses that `text` has into an empty failure.
Failure read_clauses(std::string_view text, Backend backend) {
  Failure failure = of(Arena::device, backend);
  failure.requested_bytes = size_after(text, "Tried to allocate ");
  failure.total_bytes = size_before(text, " total capacity;");
  set(failure.total_bytes, size_after(text, "total capacity of "));
  set(failure.total_bytes, size_after(text, "total capacty of "));  // as 2.1 spells it
  failure.free_bytes = size_before(text, " free;");
  set(failure.free_bytes, size_before(text, " is free."));
  failure.allowed_bytes = size_before(text, " allowed;");
  failure.allocated_bytes = size_before(text, " already allocated;");
  set(failure.allocated_bytes, size_before(text, " is allocated by PyTorch"));
  failure.private_pool_bytes = size_before(text, " allocated in private pools");
  failure.unallocated_bytes = size_before(text, " is reserved by PyTorch but unallocated");
  failure.process_bytes = size_after(text, "this process has ");
  add_processes(text, failure);
  add_reserved(text, failure);
  failure.suggests_expandable = contains(text, "expandable_segments");
  failure.garbage_size = contains(text, "more than 1EB") || beyond_any_memory(text, "Tried to allocate ");
  failure.device = device_index(text);
  failure.version = version_of(text);
  failure.text = text.substr(0, kLongestText);
  return failure;
}

// Takes what the longer text says, and keeps what only the first line's surroundings said.
void take_clauses(const Failure& read, Failure& failure) {
  failure.requested_bytes = read.requested_bytes;
  failure.total_bytes = read.total_bytes;
  failure.free_bytes = read.free_bytes;
  failure.allowed_bytes = read.allowed_bytes;
  failure.allocated_bytes = read.allocated_bytes;
  failure.private_pool_bytes = read.private_pool_bytes;
  failure.unallocated_bytes = read.unallocated_bytes;
  failure.process_bytes = read.process_bytes;
  failure.processes = read.processes;
  failure.suggests_expandable = read.suggests_expandable;
  failure.garbage_size = read.garbage_size;
  failure.device = read.device;
  failure.version = std::max(failure.version, read.version);
}

// Terminals wrap a message between words or within them; the reading with more figures is the right one.
bool add_wrapped(std::string_view line, Failure& failure) {
  const bool complete = failure.allocated_bytes && failure.unallocated_bytes;
  const bool ended = contains(line, "Traceback") || contains(line, "File \"") || failure.text.size() > 1500;
  if (complete || ended || failure.text.empty()) return false;
  const Failure apart = read_clauses(failure.text + " " + std::string(trim(line)), failure.backend);
  const Failure together = read_clauses(failure.text + std::string(trim(line)), failure.backend);
  const Failure& better = figures_of(together) > figures_of(apart) ? together : apart;
  const bool gained = figures_of(better) > figures_of(failure);
  failure.text = better.text;
  if (gained) take_clauses(better, failure);
  return gained;
}

constexpr std::string_view kAsyncBackend = "the cudaMallocAsync allocator";

// "Currently allocated     : 5.41 GiB" and so on; the figure of the user's limit stands alone on the last line.
bool add_async_table(std::string_view line, Failure& failure) {
  if (failure.allowed_bytes) return false;
  const auto row = [&](std::string_view name, OptionalBytes& field) {
    if (!trim(line).starts_with(name)) return false;
    set(field, size_after(line, ": "));
    return true;
  };
  return row("Currently allocated", failure.allocated_bytes) || row("Requested", failure.requested_bytes) ||
         row("Device limit", failure.total_bytes) || row("Free (according to CUDA)", failure.free_bytes) ||
         trim(line).starts_with("PyTorch limit (set by user") || row(": ", failure.allowed_bytes);
}

// Its GB are 2^30 bytes, as its source has it; later versions write GiB.
std::optional<Failure> start_mps(std::string_view line) {
  if (!contains(line, "MPS backend out of memory")) return std::nullopt;
  Failure failure = of(Arena::device, Backend::mps);
  failure.device = "mps";
  failure.requested_bytes = size_after(line, "Tried to allocate ", Units::binary);
  failure.allocated_bytes = size_after(line, "MPS allocated: ", Units::binary);
  failure.other_bytes = size_after(line, "other allocations: ", Units::binary);
  failure.allowed_bytes = size_after(line, "max allowed: ", Units::binary);
  return failure;
}

std::optional<Failure> start_device(std::string_view line) {
  auto rest = after(line, " out of memory. ");
  if (const auto bare = after(line, "torch.OutOfMemoryError: ")) {
    if (bare->starts_with("Tried to allocate ")) return read_clauses(*bare, Backend::cuda);
  }
  // The head of the sentence may be the title of a thread.
  const auto headless = after(line, "Tried to allocate ");
  const bool figures =
      headless && (contains(*headless, " already allocated;") || contains(*headless, " is allocated by PyTorch"));
  if (figures && !contains(line, "out of memory")) return read_clauses(line, Backend::cuda);
  const Backend backend = contains(line, "CUDA out of memory")  ? Backend::cuda
                          : contains(line, "HIP out of memory") ? Backend::rocm
                          : contains(line, "XPU out of memory") ? Backend::xpu
                          : contains(line, "NPU out of memory") ? Backend::npu
                                                                : Backend::unknown;
  if (!rest || backend == Backend::unknown || !contains(*rest, "Tried")) return std::nullopt;
  return read_clauses(*rest, backend);
}

// The cudaMallocAsync backend: "Allocation on device 0 would exceed allowed memory. (out of memory)", then a table.
std::optional<Failure> start_async(std::string_view line) {
  const auto device = between(line, "Allocation on device ", " would exceed allowed memory");
  if (!device) return std::nullopt;
  Failure failure = of(Arena::device, Backend::cuda);
  failure.device = trim(*device);
  failure.subject = kAsyncBackend;
  failure.version = {2, 0};
  return failure;
}

// PyTorch before 1.0: "THCudaCheck FAIL … error=2 : out of memory", then "cuda runtime error (2) : out of memory at …".
std::optional<Failure> start_ancient(std::string_view line) {
  const bool check = contains(line, "THCudaCheck FAIL") && contains(line, "error=2");
  if (!check && !contains(line, "cuda runtime error (2) : out of memory")) return std::nullopt;
  Failure failure = of(Arena::device, Backend::cuda);
  failure.version = {0, 3};
  return failure;
}

std::optional<Failure> start_host(std::string_view line) {
  if (contains(line, "CPUAllocator: ") || contains(line, "] not enough memory: you tried to allocate ")) {
    Failure failure = of(Arena::host, Backend::cpu);
    failure.requested_bytes = size_after(line, "you tried to allocate ");
    failure.garbage_size = beyond_any_memory(line, "you tried to allocate ");
    return failure;
  }
  if (contains(line, "Storage size calculation overflowed")) {
    Failure failure = of(Arena::none, Backend::unknown);
    failure.garbage_size = true;
    failure.subject = between(line, "sizes=", "]").value_or("");
    if (!failure.subject.empty()) failure.subject += "]";
    return failure;
  }
  return std::nullopt;
}

// A library's handle or workspace: also TensorFlow's, whose lines name its sources.
std::optional<Failure> start_library(std::string_view line) {
  const bool library =
      contains(line, "STATUS_ALLOC_FAILED") || contains(line, "CUDNN_STATUS_INTERNAL_ERROR_DEVICE_ALLOC");
  // llama.cpp says what cuBLAS calls it; its own source stands in the next line.
  const bool ggml = contains(line, "CUDA error: the resource allocation failed");
  if (!library && !ggml) return std::nullopt;
  const bool rocm = contains(line, "HIPBLAS") || contains(line, "ROCBLAS") || contains(line, "hipblas");
  Failure failure = of(Arena::device_direct, rocm ? Backend::rocm : Backend::cuda);
  if (contains(line, "tensorflow") || contains(line, "cuda_dnn.cc") || contains(line, "cuda_blas.cc")) {
    failure.framework = Framework::tensorflow;
  }
  if (ggml) failure.framework = Framework::ggml;
  failure.subject = between(line, "when calling `", "`").value_or("a library handle");
  return failure;
}

// The driver's word alone: which memory it was, a message does not tell.
std::optional<Failure> start_driver(std::string_view line) {
  const bool nccl = contains(line, "Cuda failure") && contains(line, "out of memory");
  const bool hip = contains(line, "HIP error: out of memory") || contains(line, "ROCm error: out of memory");
  if (!nccl && !hip && !contains(line, "CUDA error: out of memory")) return std::nullopt;
  if (contains(line, "cudaMalloc failed")) return std::nullopt;
  const bool julia = contains(line, "(code #2");
  Failure failure = of(Arena::device_direct, hip ? Backend::rocm : Backend::cuda);
  if (nccl) failure.subject = "NCCL";
  if (julia) failure.framework = Framework::unknown;
  failure.says = nccl ? Cause::outside_framework : Cause::unknown;
  failure.sure = Confidence::low;
  failure.headline = nccl
                         ? "NCCL found no device memory for its buffers, which lie beside PyTorch's allocator"
                         : "The driver refused memory; the message does not say which, how much, or who holds the rest";
  return failure;
}

std::optional<Failure> start_worker(std::string_view line) {
  if (contains(line, "check whether use_shared_memory is set")) {  // Paddle's
    Failure failure = of(Arena::shared_memory, Backend::cpu);
    failure.framework = Framework::paddle;
    return failure;
  }
  if (contains(line, "insufficient shared memory (shm)") ||
      (contains(line, "No space left on device") && contains(line, "torch_"))) {
    return of(Arena::shared_memory, Backend::cpu);
  }
  if (!contains(line, "DataLoader worker (pid") || !contains(line, "killed by signal")) return std::nullopt;
  if (contains(line, "Bus error")) return of(Arena::shared_memory, Backend::cpu);
  if (!contains(line, "Killed")) return std::nullopt;  // a segmentation fault is no question of memory
  Failure failure = of(Arena::worker, Backend::cpu);
  failure.subject = "DataLoader worker " + std::string(between(line, "(", ")").value_or(""));
  return failure;
}

std::optional<Failure> start(std::string_view line) {
  for (const auto form :
       {start_mps, start_device, start_async, start_ancient, start_host, start_library, start_driver, start_worker}) {
    if (auto failure = form(line)) return failure;
  }
  return std::nullopt;
}

// "  current device: 0, in function alloc at …/ggml-cuda.cu:445" under the driver's word: it was llama.cpp's.
bool add_ggml(std::string_view line, Failure& failure) {
  if (failure.says != Cause::unknown || !contains(line, "ggml")) return false;
  failure.framework = Framework::ggml;
  failure.arena = Arena::device;
  failure.task = Task::inference;
  failure.says.reset();
  return true;
}

bool add(std::string_view line, Failure& failure) {
  if (failure.subject == kAsyncBackend) return add_async_table(line, failure);
  if (failure.arena == Arena::device_direct) return add_ggml(line, failure);
  if (failure.arena != Arena::device || failure.garbage_size) return false;
  return add_wrapped(line, failure);
}

}  // namespace

const MessageForm kTorchForm = {start, add};

}  // namespace plimsoll::explain
