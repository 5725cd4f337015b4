#include "plimsoll/kernels/cpu/support/product.h"

#include <algorithm>
#include <cstring>
#include <optional>

#include "plimsoll/kernels/cpu/support/dnnl.h"
#include "plimsoll/kernels/cpu/support/dnnl_primitives.h"
#include "plimsoll/kernels/cpu/support/packed_product.h"

namespace plimsoll::kernels {
namespace {

// A product over no columns is zero, or the bias.
Kernel empty_sum(const Product& product, const Epilogue& epilogue) {
  const int64_t bytes = product.y.bytes();
  const bool biased = product.bias != nullptr;
  const int64_t columns = product.y.shape[product.y.shape.rank() - 1];
  return plain([=](const Memory& m) -> Task {
    return [=, y = m.out<float>(), bias = m.in<float>(2)] {
      if (!epilogue.onto) std::memset(y, 0, static_cast<size_t>(bytes));
      for (int64_t i = 0; biased && i < bytes / 4; ++i) y[i] += bias[i % columns];
    };
  });
}

dnnl::memory::desc bias_desc(const Product& product) {
  if (product.bias == nullptr) return {};
  dnnl::memory::dims dims(static_cast<size_t>(product.y.shape.rank()), 1);
  dims.back() = product.bias->shape[0];
  return plain_desc(dims, product.bias->dtype);
}

}  // namespace

TensorDesc transposed(TensorDesc tensor) {
  const auto rank = static_cast<size_t>(tensor.shape.rank());
  std::vector<int64_t> dims(tensor.shape.dims().begin(), tensor.shape.dims().end());
  std::swap(dims[rank - 1], dims[rank - 2]);
  std::swap(tensor.strides[rank - 1], tensor.strides[rank - 2]);
  tensor.shape = Shape(dims);
  return tensor;
}

std::optional<TensorDesc> as_matrix(const TensorDesc& tensor, bool into_columns) {
  const int rank = tensor.shape.rank();
  const int into = into_columns ? rank - 1 : rank - 2;
  const int other = into_columns ? rank - 2 : rank - 1;
  int64_t count = tensor.shape[into];
  for (int axis = rank - 3; axis >= 0; --axis) {
    if (tensor.shape[axis] == 1) continue;
    if (tensor.stride(axis) != tensor.stride(into) * count) return std::nullopt;
    count *= tensor.shape[axis];
  }
  TensorDesc matrix{tensor.dtype, Shape(), {}};
  const int64_t others = tensor.shape[other];
  matrix.shape = into_columns ? Shape({others, count}) : Shape({count, others});
  matrix.strides[into_columns ? 1 : 0] = tensor.stride(into);
  // A single row has any stride, but products of oneDNN ask that it be no shorter than the row.
  matrix.strides[into_columns ? 0 : 1] = others == 1 ? tensor.stride(into) * count : tensor.stride(other);
  return matrix;
}

Product with_folded_batches(const Product& product) {
  const int rank = product.y.shape.rank();
  for (int axis = 0; axis < rank - 2; ++axis) {
    if (product.b.shape[axis] != 1 || product.a.shape[axis] != product.y.shape[axis]) return product;
  }
  const auto a = as_matrix(product.a, false);
  const auto b = as_matrix(product.b, false);
  const auto y = as_matrix(product.y, false);
  return a && b && y ? Product{*a, *b, *y, product.bias} : product;
}

Kernel product_kernel(const Product& product, const KernelCall& call, const Epilogue& epilogue) {
  if (is_packed(product)) return packed_product(product, call, epilogue);
  for (int i = 0; i < call.arity() && call.in(i).dtype != DType::bf16; ++i) call.require_f32(i);
  if (product.a.elements() == 0 || product.b.elements() == 0) {
    const Kernel kernel = empty_sum(product, epilogue);
    return epilogue.relu ? then_relu(kernel, call) : kernel;
  }
  const auto a = desc_of(product.a);
  const auto b = desc_of(product.b);
  const auto y = desc_of(product.y);
  const auto bias = bias_desc(product);
  DnnlKernel kernel(matmul_desc(a, b, y, epilogue.attributes(), bias));
  kernel.input(DNNL_ARG_SRC, 0, a, a);
  kernel.input(DNNL_ARG_WEIGHTS, 1, b, b);
  if (product.bias != nullptr) kernel.input(DNNL_ARG_BIAS, 2, bias, bias);
  kernel.output(DNNL_ARG_DST, 0, y, y, epilogue.onto);
  return std::move(kernel).finish();
}

}  // namespace plimsoll::kernels
