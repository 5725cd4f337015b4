#include "plimsoll/kernels/cpu/support/low_precision_copy.h"

#include "plimsoll/kernels/cpu/support/parallel.h"
#include "plimsoll/kernels/cpu/support/rows.h"

namespace plimsoll::kernels {
namespace {

void upcast_row(const simd::LowPrecisionLines& lines, const uint16_t* from, int64_t step, float* to, int64_t count) {
  if (step == 1) return lines.upcast(to, from, count);
  for (int64_t i = 0; i < count; ++i) lines.upcast(to + i, from + i * step, 1);
}

// Calls f(where the block begins, from one place to the next, its number among the blocks, places), in parallel.
template <class F>
void for_each_block(const TensorDesc& tensor, int64_t first, int64_t count, int threads, const F& f) {
  const int64_t channels = tensor.shape[1];
  const int64_t positions = tensor.elements() / (tensor.shape[0] * channels);
  const int64_t grain = kGrain / (positions * kChannelBlock) + 1;
  parallel(threads, count / kChannelBlock, grain, [&](int, int64_t begin, int64_t end) {
    for (int64_t block = begin; block < end; ++block) {
      const int64_t plane = first + block * kChannelBlock;
      f(plane / channels * channels * positions + plane % channels, channels, block, positions);
    }
  });
}

}  // namespace

const simd::LowPrecisionLines& low_precision_lines(DType dtype) {
  return dtype == DType::bf16 ? simd::functions().bf16 : simd::functions().f16;
}

const simd::ElementLoops& element_loops(DType dtype) {
  const simd::Functions& functions = simd::functions();
  return dtype == DType::bf16 ? functions.on_bf16 : dtype == DType::f16 ? functions.on_f16 : functions.on_f32;
}

void upcast(const TensorDesc& tensor, const std::byte* from, float* to, int threads) {
  const simd::LowPrecisionLines& lines = low_precision_lines(tensor.dtype);
  const auto* values = reinterpret_cast<const uint16_t*>(from);
  if (tensor.blocked || tensor.is_contiguous()) {
    parallel(threads, tensor.elements(), kGrain,
             [&](int, int64_t begin, int64_t end) { lines.upcast(to + begin, values + begin, end - begin); });
    return;
  }
  const Rows<1> rows(tensor.shape, {tensor});
  parallel(threads, rows.count(), kGrain / (rows.length() + 1) + 1, [&](int, int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      upcast_row(lines, values + rows.offsets(row)[0], rows.step(0), to + row * rows.length(), rows.length());
    }
  });
}

void downcast(DType dtype, const float* from, std::byte* to, int64_t count, int threads) {
  const simd::LowPrecisionLines& lines = low_precision_lines(dtype);
  auto* values = reinterpret_cast<uint16_t*>(to);
  parallel(threads, count, kGrain,
           [&](int, int64_t begin, int64_t end) { lines.downcast(values + begin, from + begin, end - begin); });
}

void upcast_planes(const TensorDesc& tensor, const std::byte* from, int64_t first, int64_t count, float* to,
                   int threads) {
  const auto* values = reinterpret_cast<const uint16_t*>(from);
  for_each_block(tensor, first, count, threads, [&](int64_t at, int64_t step, int64_t block, int64_t positions) {
    low_precision_lines(tensor.dtype)
        .upcast_lanes(to + block * positions * kChannelBlock, values + at, step, positions);
  });
}

void downcast_planes(const TensorDesc& tensor, const float* from, std::byte* to, int64_t first, int64_t count,
                     int threads) {
  auto* values = reinterpret_cast<uint16_t*>(to);
  for_each_block(tensor, first, count, threads, [&](int64_t at, int64_t step, int64_t block, int64_t positions) {
    low_precision_lines(tensor.dtype)
        .downcast_lanes(values + at, step, from + block * positions * kChannelBlock, positions);
  });
}

}  // namespace plimsoll::kernels
