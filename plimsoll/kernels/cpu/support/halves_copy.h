// Copies between f32 in row-major order (or in blocks, which keep their order) and tensors in f16 and bf16.
#pragma once

#include "plimsoll/kernels/cpu/simd/simd.h"
#include "plimsoll/kernels/kernel.h"

namespace plimsoll::kernels {

const simd::HalfLines& half_lines(DType dtype);
const simd::ElementLoops& element_loops(DType dtype);  // f32, f16, bf16

// From a tensor that may lie anyhow.
void widen(const Tensor& tensor, const std::byte* from, float* to, int threads);

void narrow(DType dtype, const float* from, std::byte* to, int64_t count, int threads);

// Planes [first, first + count) of a tensor with its channels last, in blocks of channels. Both are multiples of
// kChannelBlock; planes are numbered over the batch and its channels.
void widen_planes(const Tensor& tensor, const std::byte* from, int64_t first, int64_t count, float* to, int threads);
void narrow_planes(const Tensor& tensor, const float* from, std::byte* to, int64_t first, int64_t count, int threads);

// For kernels that read and write f16 and bf16 a line at a time, as f32: what is f32 is read and written where it lies,
// the others in `room`, which has place for a line.
struct WideInput {
  DType dtype;
  const std::byte* data;

  WideInput(const Tensor& tensor, const std::byte* at) : dtype(tensor.dtype), data(at) {}
  const float* line(int64_t first, int64_t count, float* room) const {
    if (dtype == DType::f32) return reinterpret_cast<const float*>(data) + first;
    half_lines(dtype).widen(room, reinterpret_cast<const uint16_t*>(data) + first, count);
    return room;
  }
};

struct WideOutput {
  DType dtype;
  std::byte* data;

  WideOutput(const Tensor& tensor, std::byte* at) : dtype(tensor.dtype), data(at) {}
  bool wanted() const { return data != nullptr; }
  float* line(int64_t first, float* room) const {
    return dtype == DType::f32 ? reinterpret_cast<float*>(data) + first : room;
  }
  // After a line was written.
  void keep(int64_t first, int64_t count, const float* line) const {
    if (dtype != DType::f32) half_lines(dtype).narrow(reinterpret_cast<uint16_t*>(data) + first, line, count);
  }
};

}  // namespace plimsoll::kernels
