// ONNX Runtime, MLX, ggml, RMM, CuPy, NumPy and bare Python.
#include "plimsoll/explain/failure.h"
#include "plimsoll/explain/text_scan.h"

namespace plimsoll::explain {
namespace {

Failure of(Framework framework, Arena arena) {
  Failure failure;
  failure.framework = framework;
  failure.arena = arena;
  return failure;
}

std::optional<Failure> start_onnxruntime(std::string_view line) {
  const auto buffer = size_after(line, "Failed to allocate memory for requested buffer of size ");
  const auto wanted = size_after(line, "is smaller than requested bytes of ");
  if (!buffer && !wanted) return std::nullopt;
  Failure failure = of(Framework::onnxruntime, Arena::device);
  failure.requested_bytes = buffer ? buffer : wanted;
  failure.free_bytes = wanted ? size_after(line, "Available memory of ") : std::nullopt;
  failure.subject = between(line, "Name:'", "'").value_or("");
  if (failure.subject.empty()) failure.subject = between(line, "while running ", " node").value_or("");
  return failure;
}

std::optional<Failure> start_mlx(std::string_view line) {
  if (contains(line, "[metal::malloc] Attempting to allocate ")) {
    Failure failure = of(Framework::mlx, Arena::device);
    failure.requested_bytes = size_after(line, "Attempting to allocate ");
    failure.allowed_bytes = size_after(line, "maximum allowed buffer size of ");
    return failure;
  }
  if (!contains(line, "malloc] Unable to allocate ")) return std::nullopt;
  Failure failure = of(Framework::mlx, Arena::device);
  failure.requested_bytes = size_after(line, "Unable to allocate ");
  return failure;
}

// "…alloc_buffer: allocating 8900.01 MiB on device 0: cudaMalloc failed: out of memory"
std::optional<Failure> start_ggml(std::string_view line) {
  if (!contains(line, "alloc_buffer: allocating ") || !contains(line, "failed")) return std::nullopt;
  Failure failure = of(Framework::ggml, Arena::device);
  failure.requested_bytes = size_after(line, "allocating ");
  const auto device = integer_after(line, "on device ");
  if (device) failure.device = std::to_string(*device);
  return failure;
}

std::optional<Failure> start_rmm(std::string_view line) {
  const bool known = contains(line, "cudaErrorMemoryAllocation") || contains(line, "RMM failure") ||
                     contains(line, "rmm::out_of_memory") || contains(line, "out_of_memory");
  if (!contains(line, "bad_alloc") || !known) return std::nullopt;
  return of(Framework::rmm, Arena::device);
}

// "Out of memory allocating 8,000,000,000 bytes (allocated so far: 6,000,000,000 bytes, limit set to: …)": CuPy groups
// its digits.
std::optional<Failure> start_cupy(std::string_view line) {
  if (!contains(line, "Out of memory allocating ") || !contains(line, "(allocated so far: ")) return std::nullopt;
  std::string digits(line);
  std::erase(digits, ',');
  Failure failure = of(Framework::unknown, Arena::device);
  failure.requested_bytes = size_after(digits, "Out of memory allocating ");
  failure.allocated_bytes = size_after(digits, "allocated so far: ");
  failure.allowed_bytes = size_after(digits, "limit set to: ");
  return failure;
}

std::optional<Failure> start_host(std::string_view line) {
  if (contains(line, "Unable to allocate ") && contains(line, " for an array with shape ")) {
    Failure failure = of(Framework::numpy, Arena::host);
    failure.requested_bytes = size_after(line, "Unable to allocate ");
    failure.subject = "array " + std::string(between(line, "with shape ", ")").value_or("")) + ")";
    return failure;
  }
  if (trim(line) == "MemoryError" || contains(line, "MemoryError: std::bad_alloc")) {
    return of(Framework::unknown, Arena::host);
  }
  return std::nullopt;
}

// Our own: "OOM when allocating memory on cpu by allocator pool: 288.00 KiB asked for x, 100.00 KiB of 200.00 KiB in
// use", then an indented block.
std::optional<Failure> start_plimsoll(std::string_view line) {
  if (!contains(line, "OOM when allocating ") || !contains(line, " by allocator pool: ")) return std::nullopt;
  Failure failure = of(Framework::plimsoll, Arena::device);
  failure.device = between(line, " on ", " by allocator").value_or("");
  failure.requested_bytes = size_before(line, " asked");
  failure.subject = between(line, " asked for ", ",").value_or("");
  const auto rest = after(line, " asked").value_or("");
  failure.allocated_bytes = size_before(rest, " of ");
  failure.allowed_bytes = size_before(rest, " in use");
  return failure;
}

std::optional<Failure> start(std::string_view line) {
  for (const auto form :
       {start_plimsoll, start_onnxruntime, start_mlx, start_ggml, start_rmm, start_cupy, start_host}) {
    if (auto failure = form(line)) return failure;
  }
  return std::nullopt;
}

bool add(std::string_view line, Failure& failure) {
  if (failure.framework != Framework::plimsoll) return false;
  if (const auto largest = size_after(line, "  largest free: ")) failure.largest_free_bytes = largest;
  return contains(line, "  largest free: ") || contains(line, "  budget: ") || contains(line, "  asked: ") ||
         contains(line, "  live: ") || contains(line, "  reserved: ");
}

}  // namespace

const MessageForm kOtherForm = {start, add};

}  // namespace plimsoll::explain
