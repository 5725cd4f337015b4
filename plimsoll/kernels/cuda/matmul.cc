// Matrix products: linear layers and their gradients, matmul of batches, products with what follows them.
#include <algorithm>

#include "plimsoll/kernels/cuda/support/elements.h"
#include "plimsoll/kernels/cuda/support/product.h"
#include "plimsoll/kernels/cuda/support/sums.h"
#include "plimsoll/kernels/device.h"
#include "plimsoll/program/ops/epilogue.h"

namespace plimsoll::kernels {
namespace {

using namespace cuda;  // NOLINT: the whole file is of it

// Rows of an operand whose last dimension is `columns`.
int64_t rows_of(const TensorDesc& tensor, int64_t columns) { return columns == 0 ? 0 : tensor.elements() / columns; }

// A row-major matrix, and its transpose.
Matrix by_rows(At at, int64_t columns) { return {at, columns, 1, 0}; }
Matrix transposed(At at, int64_t columns) { return {at, 1, columns, 0}; }

// y = x w' + bias. The bias is operand 2 where `biased`.
void add_linear(Steps& steps, bool biased, At y) {
  const KernelCall& call = steps.call();
  const int64_t outs = call.in(1).shape[0];
  const int64_t ins = call.in(1).shape[1];
  Product p{call.in(0).dtype, rows_of(call.out(), outs), outs, ins};
  p.a = by_rows(steps.contiguous(0), ins);
  p.b = transposed(steps.contiguous(1), ins);
  p.c = by_rows(y, outs);
  if (biased) p.bias = steps.contiguous(2);
  multiply(steps, p);
}

Kernel linear(const KernelCall& call) {
  Steps steps(call);
  add_linear(steps, call.arity() > 2, out());
  return steps.kernel();
}

Kernel linear_backward_input(const KernelCall& call) {
  Steps steps(call);
  const int64_t outs = call.in(1).shape[0];
  const int64_t ins = call.in(1).shape[1];
  Product p{call.in(0).dtype, rows_of(call.in(0), outs), ins, outs};
  p.a = by_rows(steps.contiguous(0), outs);
  p.b = by_rows(steps.contiguous(1), ins);
  p.c = by_rows(out(), ins);
  multiply(steps, p);
  return steps.kernel();
}

// dw (+)= dy' x, with dy operand `first` and x the next.
void add_weights(Steps& steps, int first, bool adds) {
  const KernelCall& call = steps.call();
  const Shape& dw = call.out().shape;
  Product p{call.in(first).dtype, dw[0], dw[1], rows_of(call.in(first), dw[0])};
  p.a = transposed(steps.contiguous(first), dw[0]);
  p.b = by_rows(steps.contiguous(first + 1), dw[1]);
  p.c = by_rows(out(), dw[1]);
  p.adds = adds;
  multiply(steps, p);
}

Kernel linear_backward_weights(const KernelCall& call) {
  Steps steps(call);
  if (call.produces(0)) add_weights(steps, 0, false);
  if (call.produces(1)) {
    const int64_t outs = call.out(0).shape[0];
    ReducedOf rows{call.in(0).dtype, steps.contiguous(0), straight(outs), {}};
    rows.gone.add(rows_of(call.in(0), outs), outs);
    cuda::reduce(steps, rows, {}, call.out(1).dtype, out(1));
  }
  return steps.kernel();
}

Kernel linear_accumulate(const KernelCall& call) {
  Steps steps(call);
  add_weights(steps, 1, true);
  return steps.kernel();
}

Kernel accumulate(const KernelCall& call) { return element_kernel(call, {.value = "x0 + x1"}, 2); }

// ---- matmul ----

struct Batched {
  int64_t m, n, k;
  Matrix a, b;
  TensorDesc batch_a, batch_b;  // the dimensions before the last two, with their strides
};

TensorDesc batch_dims(const TensorDesc& tensor) {
  TensorDesc batch = tensor;
  batch.shape = Shape(tensor.shape.dims().first(static_cast<size_t>(tensor.shape.rank() - 2)));
  return batch;
}

// Operand i as a matrix of strides, and where it is.
Matrix matrix_of(Steps& steps, int i, bool transpose, TensorDesc& batch) {
  const KernelCall& call = steps.call();
  TensorDesc tensor = call.in(i);
  const int rank = tensor.shape.rank();
  const auto fits = [](const TensorDesc& t, int r) {
    return (t.stride(r - 1) == 1 && t.stride(r - 2) >= t.shape[r - 1]) ||
           (t.stride(r - 2) == 1 && t.stride(r - 1) >= t.shape[r - 2]);
  };
  At at = in(i);
  if (!fits(tensor, rank)) {
    at = steps.contiguous(i);
    tensor = contiguous(tensor.dtype, tensor.shape);
  }
  batch = batch_dims(tensor);
  const Matrix matrix{at, tensor.stride(rank - 2), tensor.stride(rank - 1), 0};
  return transpose ? Matrix{at, matrix.column, matrix.row, 0} : matrix;
}

Batched batched(Steps& steps) {
  const KernelCall& call = steps.call();
  Batched all{};
  const bool ta = call.op.flag("transpose_a");
  const bool tb = call.op.flag("transpose_b");
  const Shape& a = call.in(0).shape;
  all.a = matrix_of(steps, 0, ta, all.batch_a);
  all.b = matrix_of(steps, 1, tb, all.batch_b);
  all.k = a[a.rank() - (ta ? 2 : 1)];
  all.m = call.out().shape[call.out().shape.rank() - 2];
  all.n = call.out().shape[call.out().shape.rank() - 1];
  return all;
}

Kernel matmul(const KernelCall& call) {
  Steps steps(call);
  const Batched all = batched(steps);
  const Shape batch(call.out().shape.dims().first(static_cast<size_t>(call.out().shape.rank() - 2)));
  const Walk walk_a = walk_of(all.batch_a, batch);
  const Walk walk_b = walk_of(all.batch_b, batch);
  Product p{call.out().dtype, all.m, all.n, all.k, batch.elements(), all.a, all.b, by_rows(out(), all.n)};
  p.c.batch = all.m * all.n;
  if (walk_a.rank <= 1 && walk_b.rank <= 1) {
    p.a.batch = walk_a.rank == 1 ? walk_a.stride[0] : 0;
    p.b.batch = walk_b.rank == 1 ? walk_b.stride[0] : 0;
    // One matrix b for all batches of a that follow each other: one long product.
    if (p.b.batch == 0 && p.batches > 1 && p.a.column == 1 && p.a.batch == p.m * p.a.row) {
      p.m *= p.batches;
      p.batches = 1;
    }
    multiply(steps, p);
    return steps.kernel();
  }
  SummedProduct summed{p, walk_a, walk_b, straight(0), {}, {}};
  summed.batch_c = {};
  summed.batch_c.add(batch.elements(), all.m * all.n);
  multiply_summed(steps, summed);
  return steps.kernel();
}

// Batches of the product that become one, and those that stay.
Kernel matmul_sum(const KernelCall& call) {
  Steps steps(call);
  const Batched all = batched(steps);
  const Shape kept(call.out().shape.dims().first(static_cast<size_t>(call.out().shape.rank() - 2)));
  const int rank = std::max({all.batch_a.shape.rank(), all.batch_b.shape.rank(), kept.rank()});
  SummedProduct summed{
      {call.out().dtype, all.m, all.n, all.k, 1, all.a, all.b, by_rows(out(), all.n)}, {}, {}, {}, {}, {}};
  int64_t batches = 1;
  const auto size_in = [&](const Shape& shape, int axis) {
    const int own = axis - (rank - shape.rank());
    return own < 0 ? int64_t{1} : shape[own];
  };
  const auto stride_in = [&](const TensorDesc& t, int axis) {
    const int own = axis - (rank - t.shape.rank());
    return own < 0 || t.shape[own] == 1 ? int64_t{0} : t.stride(own);
  };
  for (int axis = 0; axis < rank; ++axis) {
    const int64_t size = std::max(size_in(all.batch_a.shape, axis), size_in(all.batch_b.shape, axis));
    const bool is_kept = size_in(kept, axis) == size;
    (is_kept ? summed.batch_a : summed.summed_a).add(size, stride_in(all.batch_a, axis));
    (is_kept ? summed.batch_b : summed.summed_b).add(size, stride_in(all.batch_b, axis));
    if (is_kept) batches *= size;
  }
  summed.batch_c.add(batches, all.m * all.n);
  // Where a dimension of one operand merges and that of the other does not, counts still agree.
  multiply_summed(steps, summed);
  return steps.kernel();
}

// ---- with what follows ----

KernelCall product_call(const KernelCall& call, const program::OpCall& product) {
  KernelCall alone{.op = product, .inputs = call.inputs, .outputs = {call.out()}, .requested = {true}};
  alone.inputs.resize(product.inputs.size());
  return alone;
}

// The product where the result is to be (or beside it, where the residual is there), then one pass for the rest.
Kernel epilogue(const KernelCall& call) {
  const program::OpCall product = program::product_call(call.op);
  const KernelCall alone = product_call(call, product);
  const Kernel first = cuda_kernels().find(product.def.name)->prepare(alone);
  Steps steps(call);
  const bool residual = call.op.flag("residual");
  const At before = residual ? steps.scratch(call.out().bytes()) : out();
  const At inner = steps.scratch(first.scratch_bytes);
  const bool relu = call.op.flag("relu");
  steps.add([=](const Memory& memory) {
    Memory own = memory;
    own.outputs = {address(before, memory)};
    own.scratch = address(inner, memory);
    own.inputs.resize(std::min(own.inputs.size(), size_t{3}));
    return first.bind(own);
  });
  Formula rest;
  const std::string sum = residual ? "(x0 + x1)" : "x0";
  rest.value = relu ? sum + " > 0 || " + sum + " != " + sum + " ? " + sum + " : 0" : sum;
  if (relu) rest.taken = sum + " > 0";
  std::vector<Term> terms = {{before, call.out()}};
  if (residual) terms.push_back({in(call.arity() - 1), call.inputs.back()});
  steps.launch(element_launch(rest, terms, call.out(), out(), relu ? steps.wanted(1) : none()));
  return steps.kernel();
}

}  // namespace

void register_matmul_cuda(KernelTable& table) {
  table.add("linear", {linear, any_layout});
  table.add("linear_backward_input", {linear_backward_input, any_layout});
  table.add("linear_backward_weights", {linear_backward_weights, any_layout});
  table.add("linear_accumulate", {linear_accumulate, any_layout});
  table.add("accumulate", {accumulate, any_layout});
  table.add("matmul", {matmul, any_layout});
  table.add("matmul_sum", {matmul_sum, any_layout});
  for (const char* op : {"conv_epilogue", "linear_epilogue", "matmul_epilogue"}) table.add(op, {epilogue, any_layout});
}

}  // namespace plimsoll::kernels
