// PyTorch: the caching allocator's message in its forms since 1.0 (CUDA, HIP, XPU), MPS, the host allocators, and
// torch.cuda.memory_summary.
#include <algorithm>

#include "plimsoll/base/bytes.h"
#include "plimsoll/explain/failure.h"
#include "plimsoll/explain/text_scan.h"

namespace plimsoll::explain {
namespace {

Failure of(Arena arena) {
  Failure failure;
  failure.framework = Framework::torch;
  failure.arena = arena;
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

// Reads the clauses that `text` has. A wrapped message comes in several lines, each with some of them.
void add_clauses(std::string_view text, Failure& failure) {
  set(failure.requested_bytes, size_after(text, "Tried to allocate "));
  set(failure.total_bytes, size_before(text, " total capacity;"));
  set(failure.total_bytes, size_after(text, "total capacity of "));
  set(failure.total_bytes, size_after(text, "total capacty of "));  // as 2.0 and 2.1 spell it
  set(failure.free_bytes, size_before(text, " free;"));
  set(failure.free_bytes, size_before(text, " is free."));
  set(failure.allowed_bytes, size_before(text, " allowed;"));
  set(failure.allocated_bytes, size_before(text, " already allocated;"));
  set(failure.allocated_bytes, size_before(text, " is allocated by PyTorch"));
  set(failure.private_pool_bytes, size_before(text, " allocated in private pools"));
  set(failure.unallocated_bytes, size_before(text, " is reserved by PyTorch but unallocated"));
  set(failure.process_bytes, size_after(text, "this process has "));
  add_processes(text, failure);
  failure.suggests_expandable = failure.suggests_expandable || contains(text, "expandable_segments");
  if (failure.device.empty()) failure.device = device_index(text);
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

// A figure stands there, but it is more than can be a size.
bool beyond_any_memory(std::string_view text, std::string_view marker) {
  const auto rest = after(text, marker);
  return rest && !rest->empty() && (*rest)[0] >= '0' && (*rest)[0] <= '9' && !leading_size(*rest);
}

std::optional<Failure> start_mps(std::string_view line) {
  if (!contains(line, "MPS backend out of memory")) return std::nullopt;
  Failure failure = of(Arena::device);
  failure.device = "mps";
  failure.requested_bytes = size_after(line, "Tried to allocate ");
  failure.allocated_bytes = size_after(line, "MPS allocated: ");
  failure.other_bytes = size_after(line, "other allocations: ");
  failure.allowed_bytes = size_after(line, "max allowed: ");
  return failure;
}

std::optional<Failure> start_device(std::string_view line) {
  const auto rest = after(line, " out of memory. ");
  const bool known = contains(line, "CUDA out of memory") || contains(line, "HIP out of memory") ||
                     contains(line, "XPU out of memory");
  if (!rest || !known) return std::nullopt;
  Failure failure = of(Arena::device);
  if (contains(*rest, "more than 1EB")) {
    failure.garbage_size = true;
    return failure;
  }
  add_clauses(*rest, failure);
  add_reserved(*rest, failure);
  failure.garbage_size = beyond_any_memory(*rest, "Tried to allocate ");
  return failure;
}

// The cudaMallocAsync backend: "Allocation on device 0 would exceed allowed memory. (out of memory)", then a table.
std::optional<Failure> start_async(std::string_view line) {
  const auto device = between(line, "Allocation on device ", " would exceed allowed memory");
  if (!device) return std::nullopt;
  Failure failure = of(Arena::device);
  failure.device = trim(*device);
  failure.subject = kAsyncBackend;
  return failure;
}

// PyTorch before 1.0: "cuda runtime error (2) : out of memory at …/THCStorage.cu:58".
std::optional<Failure> start_ancient(std::string_view line) {
  if (!contains(line, "cuda runtime error (2) : out of memory")) return std::nullopt;
  return of(Arena::device);
}

std::optional<Failure> start_host(std::string_view line) {
  if (contains(line, "DefaultCPUAllocator: ") || contains(line, "not enough memory: you tried to allocate ")) {
    Failure failure = of(Arena::host);
    failure.requested_bytes = size_after(line, "you tried to allocate ");
    failure.garbage_size = beyond_any_memory(line, "you tried to allocate ");
    return failure;
  }
  if (contains(line, "Storage size calculation overflowed")) {
    Failure failure = of(Arena::none);
    failure.garbage_size = true;
    failure.subject = between(line, "sizes=", "]").value_or("");
    if (!failure.subject.empty()) failure.subject += "]";
    return failure;
  }
  return std::nullopt;
}

std::optional<Failure> start_driver(std::string_view line) {
  const bool library =
      contains(line, "STATUS_ALLOC_FAILED") || contains(line, "CUDNN_STATUS_INTERNAL_ERROR_DEVICE_ALLOC");
  const bool nccl = contains(line, "Cuda failure") && contains(line, "out of memory");
  const bool driver = nccl || contains(line, "CUDA error: out of memory") || contains(line, "HIP error: out of memory");
  if (!library && !driver) return std::nullopt;
  if (contains(line, "cudaMalloc failed")) return std::nullopt;
  Failure failure = of(Arena::device_direct);
  if (library) failure.subject = between(line, "when calling `", "`").value_or("a library handle");
  return failure;
}

std::optional<Failure> start_worker(std::string_view line) {
  if (contains(line, "insufficient shared memory (shm)") ||
      (contains(line, "No space left on device") && contains(line, "torch_"))) {
    return of(Arena::shared_memory);
  }
  if (!contains(line, "DataLoader worker (pid") || !contains(line, "killed by signal")) return std::nullopt;
  if (contains(line, "Bus error")) return of(Arena::shared_memory);
  if (!contains(line, "Killed")) return std::nullopt;  // a segmentation fault is no question of memory
  Failure failure = of(Arena::worker);
  failure.subject = "DataLoader worker " + std::string(between(line, "(", ")").value_or(""));
  return failure;
}

std::optional<Failure> start(std::string_view line) {
  for (const auto form :
       {start_mps, start_device, start_async, start_ancient, start_host, start_driver, start_worker}) {
    if (auto failure = form(line)) return failure;
  }
  return std::nullopt;
}

bool add(std::string_view line, Failure& failure) {
  if (failure.subject == kAsyncBackend) return add_async_table(line, failure);
  const bool complete = failure.allocated_bytes && (failure.unallocated_bytes || failure.device == "mps");
  if (failure.arena != Arena::device || failure.garbage_size || complete || contains(line, "Traceback")) return false;
  const bool had_any = failure.allocated_bytes.has_value() || failure.free_bytes.has_value();
  add_clauses(line, failure);
  add_reserved(line, failure);
  return !had_any && (failure.allocated_bytes || failure.free_bytes);
}

}  // namespace

const MessageForm kTorchForm = {start, add};

}  // namespace plimsoll::explain
