// JAX and XLA: the runtime's exception, the TPU compiler's, and the buffer-assignment dump.
#include <utility>

#include "plimsoll/base/bytes.h"
#include "plimsoll/explain/failure.h"
#include "plimsoll/explain/text_scan.h"

namespace plimsoll::explain {
namespace {

Failure of_xla() {
  Failure failure;
  failure.framework = Framework::jax;
  return failure;
}

// "gpu_async_1 cuMemAllocAsync failed to allocate 1225195446464 bytes: …", and the card's figures in the next line.
std::optional<Failure> start_stream_ordered(std::string_view line) {
  const auto rest = after(line, "cuMemAllocAsync failed to allocate ");
  if (!rest) return std::nullopt;
  Failure failure = of_xla();
  if (contains(line, "tensorflow/")) failure.framework = Framework::tensorflow;
  failure.backend = Backend::cuda;
  failure.requested_bytes = leading_size(*rest);
  return failure;
}

constexpr std::string_view kProgram = "the whole program, at compile time";

std::optional<Failure> start_runtime(std::string_view line) {
  if (contains(line, "algorithm_picker") || contains(line, "autotuner")) return std::nullopt;  // it takes another
  auto rest = after(line, "Out of memory while trying to allocate ");
  const bool exhausted = contains(line, "RESOURCE_EXHAUSTED") || contains(line, "esource exhausted");
  if (!rest && exhausted) rest = after(line, "Out of memory allocating ");
  if (!rest && exhausted) rest = after(line, "Failed to allocate request for ");
  if (!rest) return std::nullopt;
  Failure failure = of_xla();
  failure.requested_bytes = leading_size(*rest);
  auto device = integer_after(*rest, "on device ");
  if (!device) device = integer_after(*rest, "on device ordinal ");
  if (device) failure.device = std::to_string(*device);
  failure.subject = between(*rest, "[executable_name='", "'").value_or("");
  return failure;
}

// "Ran out of memory in memory space hbm. Used 49.34G of 32.00G hbm. Exceeded hbm capacity by 17.34G."
std::optional<Failure> start_compiler(std::string_view line) {
  const auto rest = after(line, "Ran out of memory in memory space ");
  if (!rest) return std::nullopt;
  Failure failure = of_xla();
  failure.device = rest->substr(0, rest->find_first_of(". "));
  failure.backend = Backend::tpu;
  failure.allocated_bytes = size_after(*rest, "Used ");
  failure.total_bytes = size_after(*rest, " of ");
  failure.subject = kProgram;
  return failure;
}

// "Program hbm requirement 17.20G exceeds 15.48G", "Allocation (size=16106127360) would exceed memory
// (size=17179869184)"
std::optional<Failure> start_requirement(std::string_view line) {
  const auto program = after(line, "Program hbm requirement ");
  const auto buffer = after(line, "Allocation (size=");
  const bool refused = contains(line, "would exceed memory (size=");
  if (!(program && contains(*program, " exceeds ")) && !(buffer && refused)) return std::nullopt;
  Failure failure = of_xla();
  failure.backend = Backend::tpu;
  failure.device = "hbm";
  if (program) failure.allocated_bytes = leading_size(*program);
  if (buffer) failure.requested_bytes = leading_size(*buffer);
  failure.total_bytes = program ? size_after(*program, " exceeds ") : size_after(*buffer, "memory (size=");
  return failure;
}

// "Error allocating device buffer: Attempting to allocate 8.00M. That was not possible. There are 6.43M free."
std::optional<Failure> start_buffer(std::string_view line) {
  if (!contains(line, "That was not possible. There are ")) return std::nullopt;
  Failure failure = of_xla();
  failure.backend = Backend::tpu;
  failure.requested_bytes = size_after(line, "Attempting to allocate ");
  if (!failure.requested_bytes) failure.requested_bytes = size_after(line, "Attempting to reserve ");
  failure.free_bytes = size_after(line, "There are ");
  failure.largest_free_bytes = size_before(line, " reservable");
  if (failure.largest_free_bytes) std::swap(failure.free_bytes, failure.unallocated_bytes);
  return failure;
}

// Kernels are loaded beside the pool that XLA reserved.
std::optional<Failure> start_code(std::string_view line) {
  if (!contains(line, "Failed to load in-memory CUBIN") || !contains(line, "OUT_OF_MEMORY")) return std::nullopt;
  Failure failure = of_xla();
  failure.backend = Backend::cuda;
  failure.says = Cause::unknown;
  failure.sure = Confidence::low;
  failure.headline = "The driver had no memory to load a kernel's code, beside what XLA reserved";
  return failure;
}

// "cuda_dnn.cc:411] Memory usage: 4390912 bytes free, 25438126080 bytes total.", after cuDNN did not start: it is for
// want of memory only when next to nothing is free.
std::optional<Failure> start_handle(std::string_view line) {
  const auto rest = contains(line, "cuda_dnn.cc") ? after(line, "Memory usage: ") : std::nullopt;
  const auto free = rest ? size_before(*rest, " free") : std::nullopt;
  const auto total = rest ? size_before(*rest, " total") : std::nullopt;
  if (!free || !total || *free >= *total / 50) return std::nullopt;
  Failure failure = of_xla();
  failure.arena = Arena::device_direct;
  failure.backend = Backend::cuda;
  failure.free_bytes = free;
  failure.total_bytes = total;
  failure.subject = "cuDNN";
  return failure;
}

std::optional<Failure> start_dump(std::string_view line) {
  return contains(line, "BufferAssignment OOM Debugging") ? std::optional(of_xla()) : std::nullopt;
}

std::optional<Failure> start(std::string_view line) {
  for (const auto form : {start_runtime, start_stream_ordered, start_compiler, start_requirement, start_buffer,
                          start_code, start_handle, start_dump}) {
    if (auto failure = form(line)) return failure;
  }
  return std::nullopt;
}

// "             parameter allocation:    2.00GiB"
bool add_allocation(std::string_view line, Failure& failure) {
  const size_t at = line.find(" allocation: ");
  if (at == std::string_view::npos || failure.holders.size() > 64) return false;
  const auto bytes = leading_size(line.substr(at + 13));
  const std::string_view kind = trim(line.substr(0, at));
  if (!bytes || kind.empty() || kind.size() > 40) return false;
  if (kind == "total") {
    failure.allocated_bytes = bytes;
  } else {
    failure.holders.push_back({std::string(kind), *bytes});
  }
  return true;
}

// The peak buffers come as blocks of "Buffer 1:", "Size: 4.00GiB", "Operator: …", "Shape: f32[…]".
bool add_buffer(std::string_view line, Failure& failure) {
  const std::string_view text = trim(line);
  if (text.starts_with("Buffer ") && text.ends_with(":") && failure.holders.size() < 64) {
    failure.holders.push_back({"buffer " + std::string(text.substr(7, text.size() - 8)), 0});
    return true;
  }
  const bool in_buffer = !failure.holders.empty() && failure.holders.back().name.starts_with("buffer ");
  if (!in_buffer) return contains(text, "Peak buffers:") || contains(text, "BufferAssignment stats");
  Holder& buffer = failure.holders.back();
  if (text.starts_with("Size: ")) {
    buffer.bytes = leading_size(text.substr(6)).value_or(0);
  } else if (text.starts_with("Operator: ")) {
    buffer.name += " " + std::string(between(text, "op_name=\"", "\"").value_or(text.substr(10)));
  } else if (text.starts_with("Shape: ")) {
    buffer.name += " " + std::string(text.substr(7));
  } else {
    return text.starts_with("XLA ") || text.starts_with("Entry Parameter") || text.starts_with("=====") ||
           text.starts_with("Unpadded size") || text.starts_with("Extra memory due to padding") ||
           text.starts_with("Allocation type");
  }
  return true;
}

// A TPU program's total: "    program          18.12G", "    arguments         3.02G"; of its temporaries, what padding
// to tiles adds: "HLO temp  18.11G (96.1% utilization: Unpadded (11.90G) Padded (17.40G), …".
bool add_program(std::string_view line, Failure& failure) {
  if (failure.subject != kProgram || failure.holders.size() > 64) return false;
  const std::string_view text = trim(line);
  const auto row = [&](std::string_view label, std::string_view name) {
    const auto bytes = text.starts_with(label) ? leading_size(text.substr(label.size())) : std::nullopt;
    if (bytes) failure.holders.push_back({std::string(name), *bytes});
    return bytes.has_value();
  };
  if (row("reserved ", "reserved") || row("program ", "temporaries of the program") ||
      row("arguments ", "parameters and other arguments")) {
    return true;
  }
  const auto unpadded = size_after(text, "Unpadded (");
  const auto padded = size_after(text, " Padded (");
  if (text.starts_with("HLO temp ") && unpadded && padded && *padded > *unpadded) {
    failure.padding_bytes = *padded - *unpadded;
  }
  return text.starts_with("HLO temp ") || text.starts_with("Total hbm usage") || text.starts_with("Output size ") ||
         text.starts_with("Program hbm requirement") || text.starts_with("global ") || text.starts_with("scoped ") ||
         text.starts_with("Largest program allocations");
}

// "1. Size: 4.00G" opens a buffer of the TPU compiler's list.
bool add_tpu_buffer(std::string_view line, Failure& failure) {
  const std::string_view text = trim(line);
  const size_t size = text.find(". Size: ");
  if (failure.subject != kProgram || size > 4 || failure.holders.size() > 64) return false;
  failure.holders.push_back(
      {"buffer " + std::string(text.substr(0, size)), leading_size(text.substr(size + 8)).value_or(0)});
  return true;
}

// "The byte size of input/output arguments (14400000004) exceeds the base limit (4504682496)."
bool add_base_limit(std::string_view line, Failure& failure) {
  const auto limit = size_after(line, "exceeds the base limit (");
  if (limit) failure.allowed_bytes = limit;
  return limit.has_value();
}

// " Reported by CUDA: Free memory/Total memory: 22635544576/85095874560", after the stream-ordered allocator's failure.
bool add_card(std::string_view line, Failure& failure) {
  const auto figures = after(line, "Free memory/Total memory: ");
  if (!figures) return false;
  failure.free_bytes = leading_size(*figures);
  failure.total_bytes = size_after(*figures, "/");
  return true;
}

// "[[{{node XRTExecute}}]]": PyTorch's own way onto a TPU.
bool add_node(std::string_view line, Failure& failure) {
  if (failure.framework != Framework::jax || !contains(line, "{{node XRT")) return false;
  failure.framework = Framework::torch;
  return true;
}

bool add(std::string_view line, Failure& failure) {
  return add_node(line, failure) || add_card(line, failure) || add_allocation(line, failure) ||
         add_program(line, failure) || add_tpu_buffer(line, failure) || add_buffer(line, failure) ||
         add_base_limit(line, failure);
}

}  // namespace

const MessageForm kXlaForm = {start, add};

}  // namespace plimsoll::explain
