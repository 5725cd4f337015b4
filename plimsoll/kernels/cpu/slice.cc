// Parts of arrays, copied where they cannot be views.
#include <cstring>

#include "plimsoll/kernels/cpu/support/copies.h"
#include "plimsoll/kernels/tiling.h"

namespace plimsoll::kernels {
namespace {

// A part of a tensor: its shape, and where its first element lies, in bytes.
struct Part {
  TensorDesc tensor;
  int64_t offset;
};

Part strided_part(const TensorDesc& whole, const program::Dims& starts, const program::Dims& steps,
                  const Shape& sizes) {
  Part part{whole, 0};
  part.tensor.shape = sizes;
  for (int axis = 0; axis < sizes.rank(); ++axis) {
    part.offset += starts[axis].constant() * whole.stride(axis) * element_bytes(whole.dtype);
    part.tensor.strides[static_cast<size_t>(axis)] = whole.stride(axis) * steps[axis].constant();
  }
  return part;
}

// `size` elements along the axis, from `first` on.
Part piece_of(const TensorDesc& whole, int axis, int64_t first, int64_t size) {
  std::vector<int64_t> dims(whole.shape.dims().begin(), whole.shape.dims().end());
  dims[static_cast<size_t>(axis)] = size;
  Part part{whole, first * whole.stride(axis) * element_bytes(whole.dtype)};
  part.tensor.shape = Shape(dims);
  return part;
}

Kernel slice(const KernelCall& call) {
  const Part part = strided_part(call.in(0), call.op.dims("starts"), call.op.dims("steps"), call.out().shape);
  return plain([part, threads = call.threads](const Memory& m) -> Task {
    return [=, from = m.in<std::byte>(0) + part.offset, to = m.out<std::byte>()] {
      copy_to_contiguous(part.tensor, from, to, threads);
    };
  });
}

Kernel slice_backward(const KernelCall& call) {
  const Part part = strided_part(call.out(), call.op.dims("starts"), call.op.dims("steps"), call.in(0).shape);
  return plain([part, source = call.in(0), bytes = static_cast<size_t>(call.out().bytes()),
                threads = call.threads](const Memory& m) -> Task {
    return [=, from = m.in<std::byte>(0), to = m.out<std::byte>()] {
      std::memset(to, 0, bytes);
      copy_strided(source, from, part.tensor, to + part.offset, threads);
    };
  });
}

Kernel split(const KernelCall& call) {
  const int axis = call.op.axis("axis");
  std::vector<Part> parts;
  int64_t first = 0;
  for (const TensorDesc& piece : call.outputs) {
    parts.push_back(piece_of(call.in(0), axis, first, piece.shape[axis]));
    first += piece.shape[axis];
  }
  return plain([parts, made = call.requested, threads = call.threads](const Memory& m) -> Task {
    return [=, from = m.in<std::byte>(0), to = m.outputs] {
      for (size_t k = 0; k < parts.size(); ++k) {
        if (made[k]) copy_to_contiguous(parts[k].tensor, from + parts[k].offset, to[k], threads);
      }
    };
  });
}

Kernel concat(const KernelCall& call) {
  const int axis = call.op.axis("axis");
  std::vector<Part> parts;
  int64_t first = 0;
  for (const TensorDesc& piece : call.inputs) {
    parts.push_back(piece_of(call.out(), axis, first, piece.shape[axis]));
    first += piece.shape[axis];
  }
  return plain([parts, sources = call.inputs, threads = call.threads](const Memory& m) -> Task {
    return [=, from = m.inputs, to = m.out<std::byte>()] {
      for (size_t i = 0; i < parts.size(); ++i) {
        if (sources[i].elements() == 0) continue;
        copy_strided(sources[i], from[i], parts[i].tensor, to + parts[i].offset, threads);
      }
    };
  });
}

}  // namespace

void register_slice_cpu(KernelTable& table) {
  table.add("slice", {slice, any_layout, {}, nullptr, any_dtype});
  table.add("slice_backward", {slice_backward, any_layout, {}, nullptr, any_dtype});
  table.add("split", {split, any_layout, {}, nullptr, any_dtype});
  table.add("concat", {concat, any_layout, {}, nullptr, any_dtype});
}

}  // namespace plimsoll::kernels
