#include "plimsoll/kernels/cuda/support/steps.h"

#include <algorithm>

namespace plimsoll::kernels::cuda {

void Walk::add(int64_t elements, int64_t step) {
  if (elements == 1) return;
  if (rank > 0 && stride[rank - 1] == elements * step) {
    size[rank - 1] *= elements;
    stride[rank - 1] = step;
    return;
  }
  size[rank] = elements;
  stride[rank] = step;
  ++rank;
}

int64_t Walk::elements() const {
  int64_t count = 1;
  for (int d = 0; d < rank; ++d) count *= size[d];
  return count;
}

Walk walk_of(const TensorDesc& tensor, const Shape& shape) {
  Walk walk;
  const int added = shape.rank() - tensor.shape.rank();
  for (int axis = 0; axis < shape.rank(); ++axis) {
    const int own = axis - added;
    const bool repeats = own < 0 || tensor.shape[own] != shape[axis];
    walk.add(shape[axis], repeats ? 0 : tensor.stride(own));
  }
  return walk;
}

Walk straight(int64_t elements) {
  Walk walk;
  walk.add(elements, 1);
  return walk;
}

Walk walk_along(const TensorDesc& tensor, program::AxisSet axes, bool in_set) {
  Walk walk;
  for (int axis = 0; axis < tensor.shape.rank(); ++axis) {
    if (axes.test(static_cast<size_t>(axis)) == in_set) walk.add(tensor.shape[axis], tensor.stride(axis));
  }
  return walk;
}

Around::Around(const Shape& shape, int axis) : size(shape[axis]) {
  for (int i = 0; i < axis; ++i) outer *= shape[i];
  for (int i = axis + 1; i < shape.rank(); ++i) inner *= shape[i];
}

std::string_view unit_of(DType dtype) {
  switch (element_bytes(dtype)) {
    case 1:
      return "u8";
    case 2:
      return "i16";
    case 4:
      return "u32";
    default:
      return "u64";
  }
}

namespace {

Launch copy_launch(std::string_view unit, At from, const Walk& source, At to, const Walk& target) {
  const int64_t n = source.elements();
  Launch launch{"copy"};
  launch.defines.set("UNIT", unit);
  launch.grid = {std::min<int64_t>(blocks_for(n), 1 << 16)};
  launch.arguments = Arguments(n, from, to, source, target);
  return launch;
}

// The same walk in units of `count` elements; nothing where its lines are not made of whole ones.
std::optional<Walk> in_units(const Walk& walk, int64_t count) {
  if (walk.rank == 0 || walk.stride[walk.rank - 1] != 1 || walk.size[walk.rank - 1] % count != 0) return std::nullopt;
  Walk units = walk;
  for (int d = 0; d + 1 < walk.rank; ++d) {
    if (walk.stride[d] % count != 0) return std::nullopt;
    units.stride[d] /= count;
  }
  units.size[walk.rank - 1] /= count;
  return units;
}

bool is_aligned(const std::byte* at) { return reinterpret_cast<uintptr_t>(at) % 16 == 0; }

}  // namespace

Step copy_step(DType dtype, At from, const Walk& source, At to, const Walk& target) {
  const Launch single = copy_launch(unit_of(dtype), from, source, to, target);
  const int64_t count = 16 / element_bytes(dtype);
  const auto wide_source = in_units(source, count);
  const auto wide_target = in_units(target, count);
  if (!wide_source || !wide_target) return step(single);
  const Launch wide = copy_launch("uint4", from, *wide_source, to, *wide_target);
  return [=](const Memory& memory) {
    const bool fits = is_aligned(address(from, memory)) && is_aligned(address(to, memory));
    return step(fits ? wide : single)(memory);
  };
}

Launch transpose_launch(DType dtype, At from, At to, int64_t batch, int64_t rows, int64_t columns) {
  Launch launch{"transpose"};
  launch.defines.set("UNIT", unit_of(dtype));
  launch.block = {32, 8};
  launch.grid = {ceil_div(columns, 32), ceil_div(rows, 32), batch};
  launch.arguments = Arguments(rows, columns, to, from);
  return launch;
}

At Steps::contiguous(int i) {
  const TensorDesc& tensor = call_.in(i);
  if (tensor.is_channels_last() || tensor.is_contiguous()) return in(i);
  copied_.resize(static_cast<size_t>(call_.arity()));
  std::optional<At>& copy = copied_[static_cast<size_t>(i)];
  if (!copy) {
    copy = scratch(tensor.bytes());
    add(copy_step(tensor.dtype, in(i), walk_of(tensor), *copy, straight(tensor.elements())));
  }
  return *copy;
}

}  // namespace plimsoll::kernels::cuda
