#include "plimsoll/kernels/copy.h"

#include <cstring>

namespace plimsoll::kernels {
namespace {

template <class Element>
void copy_line(const std::byte* from, int64_t from_stride, std::byte* to, int64_t to_stride, int64_t count) {
  if (from_stride == 1 && to_stride == 1) {
    std::memcpy(to, from, static_cast<size_t>(count) * sizeof(Element));
    return;
  }
  const auto* source = reinterpret_cast<const Element*>(from);
  auto* target = reinterpret_cast<Element*>(to);
  for (int64_t i = 0; i < count; ++i) target[i * to_stride] = source[i * from_stride];
}

template <class Element>
void copy_axis(const TensorDesc& source, const std::byte* from, const TensorDesc& target, std::byte* to, int axis) {
  const int64_t count = source.shape[axis];
  if (axis + 1 == source.shape.rank()) {
    copy_line<Element>(from, source.stride(axis), to, target.stride(axis), count);
    return;
  }
  const auto size = static_cast<int64_t>(sizeof(Element));
  for (int64_t i = 0; i < count; ++i) {
    copy_axis<Element>(source, from + i * source.stride(axis) * size, target, to + i * target.stride(axis) * size,
                       axis + 1);
  }
}

template <class Element>
void copy_elements(const TensorDesc& source, const std::byte* from, const TensorDesc& target, std::byte* to) {
  if (source.shape.rank() == 0) {
    std::memcpy(to, from, sizeof(Element));
  } else {
    copy_axis<Element>(source, from, target, to, 0);
  }
}

}  // namespace

void copy_strided(const TensorDesc& source, const std::byte* from, const TensorDesc& target, std::byte* to) {
  switch (element_bytes(source.dtype)) {
    case 1:
      return copy_elements<uint8_t>(source, from, target, to);
    case 2:
      return copy_elements<uint16_t>(source, from, target, to);
    case 4:
      return copy_elements<uint32_t>(source, from, target, to);
    default:
      return copy_elements<uint64_t>(source, from, target, to);
  }
}

void copy_to_contiguous(const TensorDesc& tensor, const std::byte* from, std::byte* to) {
  copy_strided(tensor, from, contiguous(tensor.dtype, tensor.shape), to);
}

}  // namespace plimsoll::kernels
