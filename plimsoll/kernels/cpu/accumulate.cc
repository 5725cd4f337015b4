// Sums that stay in their storage: the gradients of a batch that is taken in parts.
#include <cstring>

#include "plimsoll/kernels/cpu/support/dnnl.h"
#include "plimsoll/kernels/cpu/support/dnnl_primitives.h"
#include "plimsoll/kernels/cpu/support/map.h"
#include "plimsoll/kernels/cpu/support/product.h"
#include "plimsoll/kernels/cpu/support/vectorised.h"
#include "plimsoll/kernels/tiling.h"

namespace plimsoll::kernels {
namespace {

Kernel clear(const KernelCall& call) {
  return plain([bytes = static_cast<size_t>(call.out().bytes())](const Memory& m) -> Task {
    return [=, x = m.out<std::byte>()] { std::memset(x, 0, bytes); };
  });
}

// sum[outs, ins] += dy[rows, outs]' x[rows, ins].
struct OuterSum {
  int64_t rows, outs, ins;
  const float* dy;
  const float* x;
};

constexpr int64_t kColumns = 1024;  // of x and the sum at a time: they stay in the cache for all outputs

void add_rows(const OuterSum& s, float* sum, int64_t begin, int64_t end) {
  vectorised([=] {
    for (int64_t first = begin; first < end; first += kColumns) {
      const int64_t count = std::min(kColumns, end - first);
      for (int64_t out = 0; out < s.outs; ++out) {
        float* into = sum + out * s.ins + first;
        for (int64_t row = 0; row < s.rows; ++row) {
          const float factor = s.dy[row * s.outs + out];
          const float* from = s.x + row * s.ins + first;
#pragma omp simd
          for (int64_t j = 0; j < count; ++j) into[j] += factor * from[j];
        }
      }
    }
  });
}

// A few rows against wide ones: bound by the traffic of the sum, which is read and written once.
Kernel add_few_rows(const KernelCall& call, int64_t rows) {
  const int64_t outs = call.in(0).shape[0];
  const int64_t ins = call.in(0).shape[1];
  return plain([=, threads = call.threads](const Memory& m) -> Task {
    const OuterSum s{rows, outs, ins, m.in<float>(1), m.in<float>(2)};
    return [=, sum = m.out<float>()] {
      parallel(threads, ins, kColumns, [&](int, int64_t begin, int64_t end) { add_rows(s, sum, begin, end); });
    };
  });
}

TensorDesc rows_of(const TensorDesc& tensor) {
  const int64_t columns = tensor.shape[tensor.shape.rank() - 1];
  return contiguous(tensor.dtype, {columns == 0 ? 0 : tensor.elements() / columns, columns});
}

Kernel add_product(const KernelCall& call) {
  dnnl::post_ops adds;
  adds.append_sum();
  dnnl::primitive_attr attributes = dnnl_attributes();
  attributes.set_post_ops(adds);
  const auto a = desc_of(transposed(rows_of(call.in(1))));
  const auto b = desc_of(rows_of(call.in(2)));
  const auto y = desc_of(call.out());
  DnnlKernel kernel(matmul_desc(a, b, y, attributes));
  kernel.input(DNNL_ARG_SRC, 1, a, a);
  kernel.input(DNNL_ARG_WEIGHTS, 2, b, b);
  kernel.output(DNNL_ARG_DST, 0, y, y);
  return std::move(kernel).finish();
}

Kernel linear_accumulate(const KernelCall& call) {
  for (int i = 0; i < 3; ++i) call.require_f32(i);
  constexpr int64_t kFew = 16;
  const int64_t rows = rows_of(call.in(1)).shape[0];
  return rows <= kFew ? add_few_rows(call, rows) : add_product(call);
}

// Rows of dy and x; every piece adds to the same sum.
Tiling tile_rows(const KernelCall& call) {
  if (call.in(1).shape.rank() < 2) return {};
  return {.rule = Tiling::Rule::rows, .count = call.in(1).shape[0], .inputs = {1, 2}, .threaded = true};
}

}  // namespace

void register_accumulate_cpu(KernelTable& table) {
  table.add("accumulate",
            {[](const KernelCall& call) { return map2_kernel(call, [](float sum, float x) { return sum + x; }); },
             contiguous_only,
             {},
             by_elements});
  table.add("linear_accumulate", {linear_accumulate, contiguous_only, {}, tile_rows});
  table.add("clear", {clear, contiguous_only, {}, nullptr, any_dtype});
}

}  // namespace plimsoll::kernels
