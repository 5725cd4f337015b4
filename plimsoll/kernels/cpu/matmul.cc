// Products of batches of matrices.
#include <algorithm>
#include <cstring>
#include <optional>

#include "plimsoll/base/bytes.h"
#include "plimsoll/kernels/cpu/support/dnnl.h"
#include "plimsoll/kernels/cpu/support/packed_product.h"
#include "plimsoll/kernels/cpu/support/product.h"
#include "plimsoll/kernels/tiling.h"
#include "plimsoll/program/shape_rules.h"

namespace plimsoll::kernels {
namespace {

// With 1s before its dimensions, up to `rank`.
TensorDesc with_rank(const TensorDesc& tensor, int rank) {
  const int missing = rank - tensor.shape.rank();
  TensorDesc padded{tensor.dtype, {}, {}};
  std::vector<int64_t> dims(static_cast<size_t>(missing), 1);
  for (int axis = 0; axis < tensor.shape.rank(); ++axis) {
    dims.push_back(tensor.shape[axis]);
    padded.strides[static_cast<size_t>(axis + missing)] = tensor.stride(axis);
  }
  padded.shape = Shape(dims);
  for (int axis = missing - 1; axis >= 0; --axis) {
    const auto i = static_cast<size_t>(axis);
    padded.strides[i] = padded.strides[i + 1] * padded.shape[axis + 1];
  }
  return padded;
}

Product product_of(const KernelCall& call, const TensorDesc& y) {
  const int rank = y.shape.rank();
  const auto operand = [&](int i, const char* flag) {
    const TensorDesc tensor = with_rank(call.in(i), rank);
    return call.op.flag(flag) ? transposed(tensor) : tensor;
  };
  return {.a = operand(0, "transpose_a"), .b = operand(1, "transpose_b"), .y = y};
}

Product folded_product_of(const KernelCall& call) { return with_folded_batches(product_of(call, call.out())); }

bool computes(const KernelCall& call) { return dnnl_computes(call) || is_packed(folded_product_of(call)); }

Kernel matmul(const KernelCall& call) { return matmul_forward(call, {}); }

// Where the result has none of the batches, the sum over them is part of the product's own.
std::optional<Product> over_all_batches(const Product& product, const TensorDesc& y) {
  const int rank = product.y.shape.rank();
  for (int axis = 0; axis < rank - 2; ++axis) {
    if (axis >= rank - y.shape.rank() && y.shape[axis - (rank - y.shape.rank())] != 1) return std::nullopt;
    if (product.a.shape[axis] != product.y.shape[axis] || product.b.shape[axis] != product.y.shape[axis]) {
      return std::nullopt;
    }
  }
  const auto a = as_matrix(product.a, true);
  const auto b = as_matrix(product.b, false);
  const auto sum = as_matrix(y, false);
  if (!a || !b || !sum) return std::nullopt;
  return Product{.a = *a, .b = *b, .y = *sum};
}

// The whole product in scratch, then the sum over the batches that the result does not have.
Kernel matmul_sum(const KernelCall& call) {
  program::Dims batch_a(std::span(call.op.shape(0).begin(), call.op.shape(0).end() - 2));
  program::Dims batch_b(std::span(call.op.shape(1).begin(), call.op.shape(1).end() - 2));
  program::Dims full = *program::broadcast_shapes(batch_a, batch_b);
  const int rank = call.out().shape.rank();
  full.push_back(call.out().shape[rank - 2]);
  full.push_back(call.out().shape[rank - 1]);
  const TensorDesc whole = contiguous(DType::f32, full.shape());
  const Product batches = product_of(call, whole);
  if (const auto folded = over_all_batches(batches, call.out())) return product_kernel(*folded, call);
  const Kernel product = product_kernel(batches, call);
  const int64_t offset = align_up(product.scratch_bytes, kAlignment);
  const auto bytes = static_cast<size_t>(call.out().bytes());
  TensorDesc target = with_rank(call.out(), whole.shape.rank());
  for (int axis = 0; axis < whole.shape.rank(); ++axis) {
    if (target.shape[axis] != whole.shape[axis]) target.strides[static_cast<size_t>(axis)] = 0;
  }
  return {offset + align_up(whole.bytes(), kAlignment), [=](const Memory& m) -> Task {
            Memory inner = m;
            inner.outputs[0] = m.scratch + offset;
            return [=, multiply = product.bind(inner), from = m.scratch_at<float>(offset), y = m.out<float>()] {
              multiply();
              std::memset(y, 0, bytes);
              for (int64_t i = 0; i < whole.elements(); ++i) {
                int64_t rest = i;
                int64_t at = 0;
                for (int axis = whole.shape.rank() - 1; axis >= 0; --axis) {
                  at += rest % whole.shape[axis] * target.stride(axis);
                  rest /= whole.shape[axis];
                }
                y[at] += from[i];
              }
            };
          }};
}

// Along the first dimension of the result, which operands have too that are not used for all of it.
Tiling by_batches(const KernelCall& call) {
  const Shape& y = call.out().shape;
  Tiling tiling{.rule = Tiling::Rule::rows, .count = y[0], .outputs = {0}, .threaded = true};
  if (y.rank() == 2) {
    if (call.op.flag("transpose_a")) return {};
    tiling.inputs = {0};
    return tiling;
  }
  for (int i = 0; i < 2; ++i) {
    if (call.in(i).shape.rank() == y.rank() && call.in(i).shape[0] == y[0]) tiling.inputs.push_back(i);
  }
  return tiling;
}

}  // namespace

Kernel matmul_forward(const KernelCall& call, const Epilogue& epilogue) {
  return product_kernel(folded_product_of(call), call, epilogue);
}

void register_matmul_cpu(KernelTable& table) {
  table.add("matmul", {matmul, any_layout, {}, by_batches, computes});
  table.add("matmul_sum", {matmul_sum, any_layout});
}

}  // namespace plimsoll::kernels
