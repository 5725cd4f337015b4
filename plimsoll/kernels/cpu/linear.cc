// y = x w' + bias over rows: products of matrices, by oneDNN.
#include "plimsoll/base/bytes.h"
#include "plimsoll/kernels/cpu/support/dnnl.h"
#include "plimsoll/kernels/cpu/support/product.h"
#include "plimsoll/kernels/cpu/support/sums.h"
#include "plimsoll/kernels/cut.h"

namespace plimsoll::kernels {
namespace {

// [.., n] as a matrix of n columns.
Tensor rows_of(const Tensor& tensor) {
  const int64_t columns = tensor.shape[tensor.shape.rank() - 1];
  return contiguous(tensor.dtype, {columns == 0 ? 0 : tensor.elements() / columns, columns});
}

Kernel forward(const Use& use) {
  const Tensor bias = use.arity() > 2 ? use.in(2) : Tensor{};
  return product_kernel({.a = rows_of(use.in(0)),
                         .b = transposed(use.in(1)),
                         .y = rows_of(use.out()),
                         .bias = use.arity() > 2 ? &bias : nullptr},
                        use);
}

Kernel backward_input(const Use& use) {
  return product_kernel({.a = rows_of(use.in(0)), .b = use.in(1), .y = rows_of(use.out())}, use);
}

Kernel backward_weights(const Use& use) {
  const Tensor dy = rows_of(use.in(0));
  Kernel product = product_kernel({.a = transposed(dy), .b = rows_of(use.in(1)), .y = use.out()}, use);
  if (!use.wants(1)) return product;
  const ColumnSums sums(dy.shape[0], dy.shape[1], use.threads);
  const int64_t offset = align_up(product.scratch_bytes, kAlignment);
  return {offset + sums.scratch_bytes(), [=](const Memory& m) -> Task {
            return [=, multiply = product.bind(m), x = WideInput(dy, m.inputs[0]), own = m.scratch_at<float>(offset),
                    y = WideOutput(dy, m.outputs[1])] {
              multiply();
              sums.run(x, own, y);
            };
          }};
}

Cut threaded_rows(const Use& use, std::vector<int> inputs, std::vector<int> outputs, std::vector<int> sums) {
  if (use.in(0).shape.rank() < 2) return {};
  Cut cut = by_rows(use, std::move(inputs), std::move(outputs), std::move(sums));
  cut.threaded = true;
  return cut;
}

Cut cut_input(const Use& use) { return threaded_rows(use, {0}, {0}, {}); }
Cut cut_both(const Use& use) { return threaded_rows(use, {0, 1}, {}, {0, 1}); }

}  // namespace

void register_linear_cpu(KernelTable& table) {
  table.add("linear", {forward, contiguous_only, {}, cut_input, dnnl_computes});
  table.add("linear_backward_input", {backward_input, contiguous_only, {}, cut_input, dnnl_computes});
  table.add("linear_backward_weights", {backward_weights, contiguous_only, {}, cut_both, dnnl_computes});
}

}  // namespace plimsoll::kernels
