#include "plimsoll/kernels/cpu/support/epilogue.h"

#include "plimsoll/kernels/cpu/simd/simd.h"
#include "plimsoll/kernels/cpu/support/dnnl_primitives.h"
#include "plimsoll/kernels/cpu/support/parallel.h"

namespace plimsoll::kernels {

dnnl::primitive_attr Epilogue::attributes() const {
  dnnl::post_ops operations;
  if (onto) operations.append_sum();
  if (relu) append_relu(operations);
  dnnl::primitive_attr attributes = dnnl_attributes();
  attributes.set_post_ops(operations);
  return attributes;
}

Kernel then_relu(Kernel kernel, const KernelCall& call) {
  const int64_t scratch_bytes = kernel.scratch_bytes;
  return {scratch_bytes,
          [kernel = std::move(kernel), count = call.out().elements(), threads = call.threads,
           relu = simd::functions().on_f32.relu](const Memory& m) -> Task {
            return [=, before = kernel.bind(m), y = m.out<float>()] {
              before();
              parallel(threads, count, kGrain,
                       [=](int, int64_t begin, int64_t end) { relu(y + begin, nullptr, y + begin, end - begin); });
            };
          }};
}

}  // namespace plimsoll::kernels
