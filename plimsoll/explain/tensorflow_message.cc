// TensorFlow, and whoever else uses its BFC allocator (JAX does): the allocator's warning, its dump of chunks, the
// exception.
#include <algorithm>

#include "plimsoll/base/bytes.h"
#include "plimsoll/base/error.h"
#include "plimsoll/base/spec.h"
#include "plimsoll/explain/failure.h"
#include "plimsoll/explain/text_scan.h"

namespace plimsoll::explain {
namespace {

Failure of_tensorflow() {
  Failure failure;
  failure.framework = Framework::tensorflow;
  return failure;
}

// "with shape[8,4]", in old versions "of shape [8,4]".
std::optional<std::string_view> shape_of(std::string_view line) {
  const auto shape = between(line, "shape[", "]");
  return shape ? shape : between(line, "shape [", "]");
}

// "shape[1,512,480,480] and type float": so many bytes.
OptionalBytes tensor_bytes(std::string_view line) {
  const auto shape = shape_of(line);
  const auto type = between(line, "and type ", " ");
  const auto dtype = type ? try_parse_dtype(trim(*type)) : std::nullopt;
  if (!shape || !dtype) return std::nullopt;
  try {
    return TensorSpec{*dtype, parse_shape(*shape)}.bytes();
  } catch (const ArgumentError&) {  // a shape that was cut, or whose bytes do not fit
    return std::nullopt;
  }
}

// "/job:localhost/replica:0/task:0/device:GPU:0" or "GPU_0_bfc" -> "0"
std::string device_of(std::string_view line) {
  auto number = integer_after(line, "device:GPU:");
  if (!number) number = integer_after(line, "GPU_");
  return number ? std::to_string(*number) : "";
}

// JAX has the same allocator; its lines name other sources.
Framework owner_of(std::string_view line) {
  if (contains(line, "external/org_tensorflow") || contains(line, "jaxlib")) return Framework::jax;
  return contains(line, "external/xla") ? Framework::jax : Framework::tensorflow;
}

std::optional<Failure> start_exception(std::string_view line) {
  const bool known =
      contains(line, "OOM when allocating tensor with shape") || contains(line, "OOM when allocating tensor of shape");
  if (!known || contains(line, "by allocator pool:")) return std::nullopt;  // the latter is our own
  Failure failure = of_tensorflow();
  failure.requested_bytes = tensor_bytes(line);
  failure.device = device_of(line);
  if (const auto shape = shape_of(line)) failure.subject = "tensor [" + std::string(*shape) + "]";
  failure.names_need = !failure.subject.empty();
  const bool host = contains(line, "device:CPU") || contains(line, "allocator cpu") || contains(line, "mklcpu");
  if (host) failure.arena = contains(line, "host_bfc") ? Arena::pinned_host : Arena::host;
  failure.backend = host ? Backend::cpu : Backend::unknown;
  return failure;
}

// Eager ops say no more than "failed to allocate memory [Op:AddV2]"; a copy that found no memory says this of its
// target.
std::optional<Failure> start_eager(std::string_view line) {
  const bool op = contains(line, "failed to allocate memory") && contains(line, "[Op:");
  const bool kernel = contains(line, "op_kernel.cc") && contains(line, "xhausted: failed to allocate memory");
  if (!op && !kernel && !contains(line, "Dst tensor is not initialized")) return std::nullopt;
  Failure failure = of_tensorflow();
  failure.device = device_of(line);
  if (op) failure.subject = "op " + std::string(between(line, "[Op:", "]").value_or(""));
  return failure;
}

// "failed to alloc 4294967296 bytes on host: CUDA_ERROR_OUT_OF_MEMORY", "could not allocate pinned host memory of size:
// 4294967296": tried again with less, so they come in dozens.
std::optional<Failure> start_pinned(std::string_view line) {
  const bool driver = contains(line, "failed to alloc ") && contains(line, " bytes on host: ");
  const bool allocator = contains(line, "could not allocate pinned host memory of size");
  if (!driver && !allocator) return std::nullopt;
  Failure failure = of_tensorflow();
  failure.framework = owner_of(line);
  failure.arena = Arena::pinned_host;
  failure.backend = Backend::cuda;
  failure.raised = false;
  failure.subject = "pinned";
  failure.requested_bytes = size_after(line, driver ? "failed to alloc " : "memory of size: ");
  return failure;
}

// tf.data puts batches together in RAM.
std::optional<Failure> start_pipeline(std::string_view line) {
  if (!contains(line, "Failed to allocate memory for the batch of component ")) return std::nullopt;
  Failure failure = of_tensorflow();
  failure.arena = Arena::host;
  failure.backend = Backend::cpu;
  failure.subject = "tf.data";
  return failure;
}

// "failed to alloc 68719476736 bytes unified memory; result: CUDA_ERROR_OUT_OF_MEMORY"
std::optional<Failure> start_unified(std::string_view line) {
  if (!contains(line, "bytes unified memory") || !contains(line, "CUDA_ERROR_OUT_OF_MEMORY")) return std::nullopt;
  Failure failure = of_tensorflow();
  failure.framework = owner_of(line);
  failure.backend = Backend::cuda;
  failure.requested_bytes = size_after(line, "failed to alloc ");
  return failure;
}

std::optional<Failure> start_allocator(std::string_view line) {
  if (!contains(line, "ran out of memory trying to allocate ") || contains(line, "this is not a failure")) {
    return std::nullopt;
  }
  Failure failure = of_tensorflow();
  failure.framework = owner_of(line);
  failure.raised = false;
  if (contains(line, "host_bfc")) failure.arena = Arena::pinned_host;
  failure.requested_bytes = size_after(line, "(rounded to ");
  if (!failure.requested_bytes) failure.requested_bytes = size_after(line, "trying to allocate ");
  failure.device = device_of(line);
  failure.subject = trim(after(line, "requested by op ").value_or(""));
  return failure;
}

// cuDNN has no word for it, but where TensorFlow holds the card it is most often memory.
std::optional<Failure> start_convolution(std::string_view line) {
  const bool handle = contains(line, "Could not create cudnn handle: CUDNN_STATUS_INTERNAL_ERROR");
  const bool scratch =
      contains(line, "ailed to allocate the scratch space") || contains(line, "ailed to allocate scratch");
  if (!handle && !scratch && !contains(line, "Failed to get convolution algorithm")) return std::nullopt;
  Failure failure = of_tensorflow();
  failure.framework = owner_of(line);
  failure.arena = Arena::device_direct;
  failure.backend = Backend::cuda;
  failure.says = Cause::workspace;
  failure.sure = Confidence::low;
  failure.headline = scratch
                         ? "cuDNN found no memory for its scratch space beside the framework's own reserve"
                         : "cuDNN did not start; most often the framework's own reserve left it no memory on the card";
  if (scratch) failure.sure = Confidence::medium;
  failure.subject = "cuDNN";
  return failure;
}

// TensorFlow takes the whole card when it starts; when that fails, it tries with less.
std::optional<Failure> start_preallocation(std::string_view line) {
  const bool rocm = contains(line, "from device: hipError") || contains(line, "from device: HIP_ERROR");
  const bool refused = rocm || contains(line, "CUDA_ERROR_OUT_OF_MEMORY");
  if (!contains(line, "failed to allocate ") || !refused) return std::nullopt;
  if (contains(line, "cuMemAllocAsync")) return std::nullopt;  // one request, not the whole card: XLA's reader has it
  Failure failure = of_tensorflow();
  failure.framework = owner_of(line);
  failure.arena = Arena::device_direct;
  failure.backend = rocm ? Backend::rocm : Backend::cuda;
  failure.raised = false;
  failure.requested_bytes = size_before(line, " bytes) from device");
  if (!failure.requested_bytes) failure.requested_bytes = size_after(line, "failed to allocate ");
  failure.subject = "preallocation";
  return failure;
}

std::optional<Failure> start(std::string_view line) {
  for (const auto form : {start_exception, start_allocator, start_preallocation, start_convolution, start_eager,
                          start_pinned, start_pipeline, start_unified}) {
    if (auto failure = form(line)) return failure;
  }
  return std::nullopt;
}

// "InUse at 7f.. of size 256 next 1", "Free  at 7f.. of size 256 next 2", "Chunk at 0x1323f9bd00 of size 246016000".
bool add_chunk(std::string_view line, Failure& failure) {
  const auto bytes = integer_after(line, " of size ");
  const bool is_free = contains(line, "Free  at ") || contains(line, "Free at ");
  if (!bytes || *bytes < 0 || *bytes > kTiB) return false;
  if (!is_free && !contains(line, "InUse at ") && !contains(line, "Chunk at 0x")) return false;
  if (!is_free) return true;  // their sum is given at the end
  failure.unallocated_bytes = std::min(failure.unallocated_bytes.value_or(0) + *bytes, int64_t{1} << 56);
  failure.largest_free_bytes = std::max(failure.largest_free_bytes.value_or(0), *bytes);
  return true;
}

// "3 Chunks of size 246016000 totalling 703.8MiB"
bool add_size_class(std::string_view line, Failure& failure) {
  const auto size = integer_after(line, " Chunks of size ");
  const auto total = size_after(line, " totalling ");
  if (!size || !total) return false;
  if (failure.holders.size() < 64) failure.holders.push_back({"chunks of " + format_bytes(*size), *total});
  return true;
}

bool add_statistics(std::string_view line, Failure& failure) {
  const std::string_view text = trim(line);
  if (const auto sum = size_after(line, "Sum Total of in-use chunks: ")) {
    failure.allocated_bytes = sum;
  } else if (const auto limit = size_after(text, "Limit: "); limit && text.find("Limit:") < 120) {
    failure.allowed_bytes = limit;
  } else if (const auto in_use = size_after(text, "InUse: "); in_use && !contains(text, "MaxInUse")) {
    failure.allocated_bytes = in_use;  // exact, and after the rounded sum
  } else {
    return contains(line, "Total Chunks: ") || contains(line, "MaxInUse:") || contains(line, "NumAllocs:") ||
           contains(line, "MaxAllocSize:") || contains(line, "bfc_allocator.cc");
  }
  return true;
}

// The allocator's picture of itself: a hundred characters, '*' in use, '_' free.
bool add_picture(std::string_view line, Failure& failure) {
  const size_t begin = line.find_last_not_of("*_x");
  const std::string_view picture = line.substr(begin == std::string_view::npos ? 0 : begin + 1);
  if (picture.size() < 50 || !contains(line, "bfc_allocator")) return false;
  size_t longest = 0;
  size_t run = 0;
  for (const char c : picture) {
    run = c == '_' ? run + 1 : 0;
    longest = std::max(longest, run);
  }
  const auto used = static_cast<size_t>(std::count(picture.begin(), picture.end(), '*'));
  failure.used_percent = static_cast<int>(100 * used / picture.size());
  failure.widest_gap_percent = static_cast<int>(100 * longest / picture.size());
  return true;
}

bool add(std::string_view line, Failure& failure) {
  return add_chunk(line, failure) || add_size_class(line, failure) || add_picture(line, failure) ||
         add_statistics(line, failure);
}

}  // namespace

const MessageForm kTensorflowForm = {start, add};

}  // namespace plimsoll::explain
