// Rows of bytes times weights of bytes, by oneDNN. The sums are made where the result is to be, and scaled there.
#include <algorithm>
#include <cstring>

#include "plimsoll/base/bytes.h"
#include "plimsoll/kernels/cpu/support/byte_products.h"
#include "plimsoll/kernels/cpu/support/dnnl_primitives.h"
#include "plimsoll/kernels/cpu/support/product.h"
#include "plimsoll/kernels/cpu/support/vectorised.h"
#include "plimsoll/program/quantization.h"

namespace plimsoll::kernels {
namespace {

// y = sums scaled, plus the bias where there is one. The sums may lie where y does.
template <class Sum>
void scale_row(float* y, const float* sums, const float* scales, const float* bias, int64_t count, float of_x) {
  vectorised([=] {
    if (bias == nullptr) {
#pragma omp simd
      for (int64_t i = 0; i < count; ++i) y[i] = as_number<Sum>(std::bit_cast<uint32_t>(sums[i])) * (of_x * scales[i]);
    } else {
#pragma omp simd
      for (int64_t i = 0; i < count; ++i) {
        y[i] = as_number<Sum>(std::bit_cast<uint32_t>(sums[i])) * (of_x * scales[i]) + bias[i];
      }
    }
  });
}

constexpr int64_t kSums = 1 << 18;     // in a part
constexpr int64_t kFewestOuts = 512;   // of a part: products of fewer are slow
constexpr int64_t kWidened = 1 << 18;  // weights in a part, where the machine does not multiply bytes

// Some of the outputs, from some of the columns of x.
struct LinearPart {
  int64_t first_out, outs;
  int64_t first_in, ins;
  Kernel widen = {};  // these columns, before the first outputs that want them wider
  Kernel multiply = {};
};

// A part has some of the outputs, so that its sums are still in the cache when they are scaled, and few weights are
// widened at a time. Sums of more products than 32 bits hold are made of several, those of the first columns where y
// is, those of others in scratch.
struct ByteLinear {
  int64_t rows, ins, outs;
  ProductTypes types;
  DType x_dtype;
  int threads;
  int64_t x_bytes = 0, sums_bytes = 0, pads_bytes = 0;  // of scratch, in this order
  std::vector<LinearPart> parts = {};

  explicit ByteLinear(const KernelCall& call)
      : rows(call.out().elements() / call.in(1).shape[0]),
        ins(call.in(1).shape[1]),
        outs(call.in(1).shape[0]),
        types(product_types(call.in(0).dtype)),
        x_dtype(call.in(0).dtype),
        threads(call.threads) {
    const int64_t most_ins = std::clamp<int64_t>(ins, 1, program::kMostProducts);
    const int64_t most_outs =
        multiplies_bytes() ? std::max(kSums / rows, kFewestOuts) : std::max<int64_t>(kWidened / most_ins, 1);
    if (!multiplies_bytes()) x_bytes = align_up(rows * most_ins * 4, kAlignment);
    if (most_ins < ins) sums_bytes = align_up(rows * outs * 4, kAlignment);
    for (int64_t in = 0; in < ins; in += most_ins) {
      for (int64_t out = 0; out < outs; out += most_outs) {
        add({out, std::min(most_outs, outs - out), in, std::min(most_ins, ins - in)});
      }
    }
  }

  bool multiplies_bytes() const { return types.sum == DType::i32; }
  int64_t scratch_bytes() const { return x_bytes + sums_bytes + pads_bytes; }

  // `count` columns of a matrix whose rows are `step` apart.
  static TensorDesc columns(DType dtype, int64_t rows, int64_t count, int64_t step) {
    TensorDesc tensor = contiguous(dtype, {rows, count});
    tensor.strides[0] = step;
    return tensor;
  }

  void add(LinearPart part) {
    const auto x_given = desc_of(columns(x_dtype, rows, part.ins, ins));
    const auto w_given = desc_of(transposed(columns(DType::i8, part.outs, part.ins, ins)));
    const auto x = multiplies_bytes() ? x_given : desc_of(contiguous(types.x, {rows, part.ins}));
    const auto w = multiplies_bytes() ? w_given : desc_of(transposed(contiguous(types.w, {part.outs, part.ins})));
    const auto y = desc_of(columns(types.sum, rows, part.outs, outs));
    DnnlKernel kernel(matmul_desc(x, w, y, dnnl_attributes()));
    kernel.input(DNNL_ARG_SRC, 0, x, x);
    kernel.input(DNNL_ARG_WEIGHTS, 1, w_given, w);
    kernel.output(DNNL_ARG_DST, 0, y, y);
    part.multiply = std::move(kernel).finish();
    if (!multiplies_bytes() && part.first_out == 0) part.widen = reorder_kernel(x_given, x);
    pads_bytes = std::max({pads_bytes, part.widen.scratch_bytes, part.multiply.scratch_bytes});
    parts.push_back(std::move(part));
  }

  Task bind(const Memory& m) const {
    std::vector<Task> tasks;
    std::byte* const pads = m.scratch + x_bytes + sums_bytes;
    for (const LinearPart& part : parts) {
      std::byte* const given = m.inputs[0] + part.first_in;
      std::byte* const x = multiplies_bytes() ? given : m.scratch;
      std::byte* const w = m.inputs[1] + part.first_out * ins + part.first_in;
      std::byte* const sums = (part.first_in == 0 ? m.outputs[0] : m.scratch + x_bytes) + part.first_out * 4;
      if (part.widen.bind) tasks.push_back(part.widen.bind({{given}, {x}, pads}));
      tasks.push_back(part.multiply.bind({{x, w}, {sums}, pads}));
      tasks.push_back(scaling(m, part, reinterpret_cast<float*>(sums)));
    }
    return [tasks = std::move(tasks)] {
      for (const Task& task : tasks) task();
    };
  }

  // The first sums take the bias; others are added to what is there.
  Task scaling(const Memory& m, const LinearPart& part, const float* sums) const {
    const bool first = part.first_in == 0;
    float* const y = m.out<float>() + part.first_out;
    const float* const bias = m.in<float>(4) == nullptr ? nullptr : m.in<float>(4) + part.first_out;
    return [=, step = outs, rows = rows, count = part.outs, threads = threads, x_scale = m.in<float>(2),
            w_scale = m.in<float>(3) + part.first_out,
            scale = multiplies_bytes() ? scale_row<int32_t> : scale_row<float>] {
      parallel(threads, rows, kGrain / (count + 1) + 1, [&](int, int64_t begin, int64_t end) {
        for (int64_t row = begin; row < end; ++row) {
          float* const to = y + row * step;
          scale(to, sums + row * step, w_scale, first ? bias : to, count, x_scale[row]);
        }
      });
    };
  }

  // Without products.
  Task empty(const Memory& m) const {
    return [scale = scaling(m, {0, outs, 0, 0}, m.out<float>()), y = m.outputs[0],
            bytes = static_cast<size_t>(rows * outs * 4)] {
      std::memset(y, 0, bytes);
      scale();
    };
  }
};

Kernel linear_i8(const KernelCall& call) {
  const ByteLinear linear(call);
  return {linear.scratch_bytes(),
          [linear](const Memory& m) { return linear.ins == 0 ? linear.empty(m) : linear.bind(m); }};
}

}  // namespace

void register_linear_i8_cpu(KernelTable& table) { table.add("linear_i8", {linear_i8}); }

}  // namespace plimsoll::kernels
