// Products of batches of matrices, by oneDNN.
#include <algorithm>
#include <cstring>

#include "plimsoll/base/bytes.h"
#include "plimsoll/kernels/cpu/support/dnnl.h"
#include "plimsoll/kernels/cpu/support/product.h"
#include "plimsoll/kernels/cut.h"
#include "plimsoll/program/shape_rules.h"

namespace plimsoll::kernels {
namespace {

// With 1s before its dimensions, up to `rank`.
Tensor with_rank(const Tensor& tensor, int rank) {
  const int missing = rank - tensor.shape.rank();
  Tensor padded{tensor.dtype, {}, {}};
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

Product product_of(const Use& use, const Tensor& y) {
  const int rank = y.shape.rank();
  const auto operand = [&](int i, const char* flag) {
    const Tensor tensor = with_rank(use.in(i), rank);
    return use.call.flag(flag) ? transposed(tensor) : tensor;
  };
  return {.a = operand(0, "transpose_a"), .b = operand(1, "transpose_b"), .y = y};
}

Kernel matmul(const Use& use) { return matmul_forward(use, {}); }

// The whole product in scratch, then the sum over the batches that the result does not have.
Kernel matmul_sum(const Use& use) {
  program::Dims batch_a(std::span(use.call.shape(0).begin(), use.call.shape(0).end() - 2));
  program::Dims batch_b(std::span(use.call.shape(1).begin(), use.call.shape(1).end() - 2));
  program::Dims full = *program::broadcast_shapes(batch_a, batch_b);
  const int rank = use.out().shape.rank();
  full.push_back(use.out().shape[rank - 2]);
  full.push_back(use.out().shape[rank - 1]);
  const Tensor whole = contiguous(DType::f32, full.shape());
  const Kernel product = product_kernel(product_of(use, whole), use);
  const int64_t offset = align_up(product.scratch_bytes, kAlignment);
  const auto bytes = static_cast<size_t>(use.out().bytes());
  Tensor target = with_rank(use.out(), whole.shape.rank());
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
Cut by_batches(const Use& use) {
  const Shape& y = use.out().shape;
  Cut cut{.rule = Cut::Rule::rows, .count = y[0], .outputs = {0}, .threaded = true};
  if (y.rank() == 2) {
    if (use.call.flag("transpose_a")) return {};
    cut.inputs = {0};
    return cut;
  }
  for (int i = 0; i < 2; ++i) {
    if (use.in(i).shape.rank() == y.rank() && use.in(i).shape[0] == y[0]) cut.inputs.push_back(i);
  }
  return cut;
}

}  // namespace

Kernel matmul_forward(const Use& use, const Epilogue& epilogue) {
  return product_kernel(product_of(use, use.out()), use, epilogue);
}

void register_matmul_cpu(KernelTable& table) {
  table.add("matmul", {matmul, any_layout, {}, by_batches, dnnl_computes});
  table.add("matmul_sum", {matmul_sum, any_layout});
}

}  // namespace plimsoll::kernels
