// Copies between f32 in row-major order (or in blocks, which keep their order) and tensors in f16 and bf16.
#pragma once

#include "plimsoll/kernels/cpu/simd/simd.h"
#include "plimsoll/kernels/kernel.h"

namespace plimsoll::kernels {

const simd::LowPrecisionLines& low_precision_lines(DType dtype);
const simd::ElementLoops& element_loops(DType dtype);  // f32, f16, bf16

// From a tensor that may lie anyhow.
void upcast(const TensorDesc& tensor, const std::byte* from, float* to, int threads);

void downcast(DType dtype, const float* from, std::byte* to, int64_t count, int threads);

// Planes [first, first + count) of a tensor with its channels last, in blocks of channels. Both are multiples of
// kChannelBlock; planes are numbered over the batch and its channels.
void upcast_planes(const TensorDesc& tensor, const std::byte* from, int64_t first, int64_t count, float* to,
                   int threads);
void downcast_planes(const TensorDesc& tensor, const float* from, std::byte* to, int64_t first, int64_t count,
                     int threads);

// For kernels that read and write f16 and bf16 a line at a time, as f32: what is f32 is read and written where it lies,
// the others in `room`, which has place for a line.
struct WideInput {
  DType dtype;
  const std::byte* data;

  WideInput(const TensorDesc& tensor, const std::byte* at) : dtype(tensor.dtype), data(at) {}
  const float* line(int64_t first, int64_t count, float* workspace) const {
    if (dtype == DType::f32) return reinterpret_cast<const float*>(data) + first;
    low_precision_lines(dtype).upcast(workspace, reinterpret_cast<const uint16_t*>(data) + first, count);
    return workspace;
  }
};

struct WideOutput {
  DType dtype;
  std::byte* data;

  WideOutput(const TensorDesc& tensor, std::byte* at) : dtype(tensor.dtype), data(at) {}
  bool wanted() const { return data != nullptr; }
  float* line(int64_t first, float* workspace) const {
    return dtype == DType::f32 ? reinterpret_cast<float*>(data) + first : workspace;
  }
  // After a line was written.
  void keep(int64_t first, int64_t count, const float* line) const {
    if (dtype != DType::f32)
      low_precision_lines(dtype).downcast(reinterpret_cast<uint16_t*>(data) + first, line, count);
  }
};

}  // namespace plimsoll::kernels
