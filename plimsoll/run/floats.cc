#include "plimsoll/run/floats.h"

#include <fmt/format.h>

#include <cstring>

#include "plimsoll/base/error.h"
#include "plimsoll/kernels/cpu/support/low_precision_copy.h"
#include "plimsoll/kernels/tiling.h"

namespace plimsoll::run {
namespace {

void check(const program::ValueInfo& value) {
  const DType dtype = value.type.dtype;
  if (dtype == DType::f32 || kernels::is_low_precision(dtype)) return;
  throw ArgumentError(fmt::format("%{} is {}, expected f32, f16 or bf16", value.name, value.type.text()));
}

}  // namespace

std::vector<float> read_floats(Executor& executor, program::Value value) {
  const program::ValueInfo& info = executor.program()[value];
  check(info);
  const std::span<const std::byte> bytes = executor.bytes(value);
  std::vector<float> floats(bytes.size() / static_cast<size_t>(element_bytes(info.type.dtype)));
  if (floats.empty()) return floats;
  if (info.type.dtype == DType::f32) {
    std::memcpy(floats.data(), bytes.data(), bytes.size());
  } else {
    kernels::low_precision_lines(info.type.dtype)
        .upcast(floats.data(), executor.data<uint16_t>(value).data(), static_cast<int64_t>(floats.size()));
  }
  return floats;
}

void write_rounded(DType dtype, std::span<const float> floats, std::span<std::byte> into) {
  if (floats.empty()) return;
  if (dtype == DType::f32) {
    std::memcpy(into.data(), floats.data(), floats.size_bytes());
  } else {
    kernels::low_precision_lines(dtype).downcast(reinterpret_cast<uint16_t*>(into.data()), floats.data(),
                                                 static_cast<int64_t>(floats.size()));
  }
}

void write_floats(Executor& executor, program::Value value, std::span<const float> floats) {
  const program::ValueInfo& info = executor.program()[value];
  check(info);
  const std::span<std::byte> bytes = executor.bytes(value);
  if (bytes.size() != floats.size() * static_cast<size_t>(element_bytes(info.type.dtype))) {
    throw ArgumentError(
        fmt::format("%{} is {}: {} numbers do not fill it", info.name, info.type.text(), floats.size()));
  }
  write_rounded(info.type.dtype, floats, bytes);
}

}  // namespace plimsoll::run
