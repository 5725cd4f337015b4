#include "plimsoll/kernels/cpu/support/copies.h"

#include <algorithm>

#include "plimsoll/kernels/copy.h"
#include "plimsoll/kernels/cpu/support/parallel.h"

namespace plimsoll::kernels {
namespace {

// The first dimension that is long enough for all threads, else the longest.
int axis_to_cut(const Shape& shape, int threads) {
  const auto dims = shape.dims();
  const auto enough = std::find_if(dims.begin(), dims.end(), [&](int64_t size) { return size >= threads; });
  const auto longest = std::max_element(dims.begin(), dims.end());
  return static_cast<int>((enough != dims.end() ? enough : longest) - dims.begin());
}

TensorDesc with_size(TensorDesc tensor, int axis, int64_t size) {
  std::array<int64_t, Shape::kMaxRank> dims{};
  std::copy(tensor.shape.dims().begin(), tensor.shape.dims().end(), dims.begin());
  dims[static_cast<size_t>(axis)] = size;
  tensor.shape = Shape(std::span<const int64_t>(dims).first(static_cast<size_t>(tensor.shape.rank())));
  return tensor;
}

}  // namespace

void copy_strided(const TensorDesc& source, const std::byte* from, const TensorDesc& target, std::byte* to,
                  int threads) {
  if (threads == 1 || source.elements() < 2 * kGrain) return copy_strided(source, from, target, to);
  const int axis = axis_to_cut(source.shape, threads);
  const int64_t size = element_bytes(source.dtype);
  parallel(threads, source.shape[axis], 1, [&](int, int64_t begin, int64_t end) {
    copy_strided(with_size(source, axis, end - begin), from + begin * source.stride(axis) * size,
                 with_size(target, axis, end - begin), to + begin * target.stride(axis) * size);
  });
}

void copy_to_contiguous(const TensorDesc& tensor, const std::byte* from, std::byte* to, int threads) {
  copy_strided(tensor, from, contiguous(tensor.dtype, tensor.shape), to, threads);
}

}  // namespace plimsoll::kernels
