#include "plimsoll/run/floats.h"

#include <fmt/format.h>

#include <cstring>

#include "plimsoll/base/error.h"
#include "plimsoll/kernels/convert.h"
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
  if (info.type.dtype == DType::f32) return executor.read<float>(value);
  std::vector<float> floats;
  executor.view_bytes(value, [&](std::span<const std::byte> bytes) {
    floats.resize(bytes.size() / 2);
    if (floats.empty()) return;
    const std::span values(reinterpret_cast<const uint16_t*>(bytes.data()), floats.size());
    kernels::upcast(info.type.dtype, values, floats.data());
  });
  return floats;
}

void write_rounded(DType dtype, std::span<const float> floats, std::span<std::byte> into) {
  if (floats.empty()) return;
  if (dtype == DType::f32) {
    std::memcpy(into.data(), floats.data(), floats.size_bytes());
  } else {
    kernels::downcast(dtype, floats, reinterpret_cast<uint16_t*>(into.data()));
  }
}

void write_floats(Executor& executor, program::Value value, std::span<const float> floats) {
  const program::ValueInfo& info = executor.program()[value];
  check(info);
  executor.fill_bytes(value, [&](std::span<std::byte> bytes) {
    if (bytes.size() != floats.size() * static_cast<size_t>(element_bytes(info.type.dtype))) {
      throw ArgumentError(
          fmt::format("%{} is {}: {} numbers do not fill it", info.name, info.type.text(), floats.size()));
    }
    write_rounded(info.type.dtype, floats, bytes);
  });
}

}  // namespace plimsoll::run
