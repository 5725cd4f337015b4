// Numbers as bytes, tables of bytes, and products of rows of bytes, by oneDNN. Their sums are made where the result is
// to be, and scaled there.
#include <algorithm>
#include <cstring>

#include "plimsoll/base/bytes.h"
#include "plimsoll/kernels/cpu/support/byte_products.h"
#include "plimsoll/kernels/cpu/support/indices.h"
#include "plimsoll/kernels/cpu/support/product.h"
#include "plimsoll/program/quantization.h"

namespace plimsoll::kernels {
namespace {

// ---- numbers as bytes ----

// NaN where one of them is: its bits, as those of infinity, are above all others.
PLIMSOLL_VECTORISED uint32_t largest_bits(const float* x, int64_t count) {
  int32_t most = 0;
#pragma omp simd reduction(max : most)
  for (int64_t i = 0; i < count; ++i) most = std::max(most, std::bit_cast<int32_t>(x[i]) & INT32_MAX);
  return static_cast<uint32_t>(most);
}

template <class Byte>
PLIMSOLL_VECTORISED void to_bytes(Byte* bytes, const float* x, int64_t count, float inverse, float least, float most) {
  constexpr float kRound = 12582912.0F;  // 1.5 * 2^23: adding it leaves no fraction
#pragma omp simd
  for (int64_t i = 0; i < count; ++i) {
    const float scaled = x[i] * inverse;
    const float number = scaled == scaled ? scaled : 0.0F;
    const float held = number < least ? least : number > most ? most : number;
    bytes[i] = static_cast<Byte>(static_cast<int32_t>((held + kRound) - kRound));
  }
}

struct Quantize {
  int64_t rows, columns;
  DType dtype;
  int threads;

  program::RowScale<float> scale_of(uint32_t largest) const {
    return program::row_scale(std::bit_cast<float>(largest), dtype);
  }

  void write(std::byte* bytes, const float* x, int64_t count, float inverse) const {
    const auto least = static_cast<float>(program::least_byte(dtype));
    const auto most = static_cast<float>(program::largest_byte(dtype));
    if (dtype == DType::i8) {
      to_bytes(reinterpret_cast<int8_t*>(bytes), x, count, inverse, least, most);
    } else {
      to_bytes(reinterpret_cast<uint8_t*>(bytes), x, count, inverse, least, most);
    }
  }

  // Rows on threads of their own.
  void run_rows(const float* x, std::byte* bytes, float* scales) const {
    parallel(threads, rows, kGrain / (columns + 1) + 1, [&](int, int64_t begin, int64_t end) {
      for (int64_t row = begin; row < end; ++row) {
        const auto found = scale_of(largest_bits(x + row * columns, columns));
        scales[row] = found.scale;
        write(bytes + row * columns, x + row * columns, columns, found.inverse);
      }
    });
  }

  // All threads on one row after the other. `largest` is one of each part.
  void run_parts(const float* x, std::byte* bytes, float* scales, uint32_t* largest) const {
    for (int64_t row = 0; row < rows; ++row) {
      std::fill(largest, largest + threads, 0);
      parallel(threads, columns, kGrain, [&](int part, int64_t begin, int64_t end) {
        largest[part] = largest_bits(x + row * columns + begin, end - begin);
      });
      const auto found = scale_of(*std::max_element(largest, largest + threads));
      scales[row] = found.scale;
      parallel(threads, columns, kGrain, [&](int, int64_t begin, int64_t end) {
        write(bytes + row * columns + begin, x + row * columns + begin, end - begin, found.inverse);
      });
    }
  }
};

// A blocked sample has its elements in another order, and the bytes likewise.
Kernel quantize(const Use& use) {
  use.require_f32(0);
  const int64_t rows = use.out(1).elements();
  const Quantize how{rows, use.in(0).elements() / std::max<int64_t>(rows, 1), use.out().dtype, use.threads};
  return {align_up(use.threads * 4, kAlignment), [how](const Memory& m) -> Task {
            return [=, x = m.in<float>(0), bytes = m.outputs[0], scales = m.out<float>(1),
                    largest = m.scratch_at<uint32_t>(0)] {
              if (how.rows >= 2 * how.threads) {
                how.run_rows(x, bytes, scales);
              } else {
                how.run_parts(x, bytes, scales, largest);
              }
            };
          }};
}

// ---- rows of bytes times weights ----

// y = sums scaled, plus the bias where there is one. The sums may lie where y does.
template <class Sum>
PLIMSOLL_VECTORISED void scale_row(float* y, const float* sums, const float* scales, const float* bias, int64_t count,
                                   float of_x) {
  if (bias == nullptr) {
#pragma omp simd
    for (int64_t i = 0; i < count; ++i) y[i] = as_number<Sum>(std::bit_cast<uint32_t>(sums[i])) * (of_x * scales[i]);
  } else {
#pragma omp simd
    for (int64_t i = 0; i < count; ++i) {
      y[i] = as_number<Sum>(std::bit_cast<uint32_t>(sums[i])) * (of_x * scales[i]) + bias[i];
    }
  }
}

constexpr int64_t kWidened = 1 << 18;  // weights at a time, where the machine does not multiply bytes

// Some of the outputs, from some of the columns of x.
struct LinearPart {
  int64_t first_out, outs;
  int64_t first_in, ins;
  Kernel multiply = {};
};

// Sums of more products than 32 bits hold are made in parts, those of the first part where y is, those of others in
// scratch. Where weights are widened, parts have some of the outputs.
struct ByteLinear {
  int64_t rows, ins, outs;
  ProductTypes types;
  DType x_dtype;
  int threads;
  int64_t x_bytes = 0, sums_bytes = 0;
  Kernel widen = {};  // x, where it is not multiplied as it is
  std::vector<LinearPart> parts = {};

  explicit ByteLinear(const Use& use)
      : rows(use.out().elements() / use.in(1).shape[0]),
        ins(use.in(1).shape[1]),
        outs(use.in(1).shape[0]),
        types(product_types(use.in(0).dtype)),
        x_dtype(use.in(0).dtype),
        threads(use.threads) {
    if (ins == 0) return;
    if (multiplies_bytes()) {
      cut(outs, program::kMostProducts);
      if (ins > program::kMostProducts) sums_bytes = align_up(rows * outs * 4, kAlignment);
    } else {
      cut(std::max<int64_t>(kWidened / ins, 1), ins);
      x_bytes = align_up(rows * ins * 4, kAlignment);
      widen = reorder_kernel(desc_of(contiguous(x_dtype, {rows, ins})), desc_of(contiguous(types.x, {rows, ins})));
    }
  }

  bool multiplies_bytes() const { return types.sum == DType::i32; }

  void cut(int64_t most_outs, int64_t most_ins) {
    for (int64_t in = 0; in < ins; in += most_ins) {
      for (int64_t out = 0; out < outs; out += most_outs) {
        LinearPart part{out, std::min(most_outs, outs - out), in, std::min(most_ins, ins - in)};
        part.multiply = product(part);
        parts.push_back(std::move(part));
      }
    }
  }

  // `columns` of a matrix whose rows are `from_row_to_row` apart.
  static Tensor columns(DType dtype, int64_t rows, int64_t columns, int64_t from_row_to_row) {
    Tensor tensor = contiguous(dtype, {rows, columns});
    tensor.strides[0] = from_row_to_row;
    return tensor;
  }

  Kernel product(const LinearPart& part) const {
    const auto x = desc_of(columns(types.x, rows, part.ins, ins));
    const auto given = desc_of(transposed(columns(DType::i8, part.outs, part.ins, ins)));
    const auto w = multiplies_bytes() ? given : desc_of(transposed(contiguous(types.w, {part.outs, part.ins})));
    const auto y = desc_of(columns(types.sum, rows, part.outs, outs));
    DnnlKernel kernel(dnnl::matmul::primitive_desc({x, w, y}, dnnl_attributes(), dnnl_engine()));
    kernel.input(DNNL_ARG_SRC, 0, x, x);
    kernel.input(DNNL_ARG_WEIGHTS, 1, given, w);
    kernel.output(DNNL_ARG_DST, 0, y, y);
    return std::move(kernel).finish();
  }

  int64_t scratch_bytes() const {
    int64_t most = widen.scratch_bytes;
    for (const LinearPart& part : parts) most = std::max(most, part.multiply.scratch_bytes);
    return x_bytes + sums_bytes + most;
  }

  Task bind(const Memory& m) const {
    std::vector<Task> tasks;
    std::byte* const pads = m.scratch + x_bytes + sums_bytes;
    std::byte* const x = widen.bind ? m.scratch : m.inputs[0];
    if (widen.bind) tasks.push_back(widen.bind({{m.inputs[0]}, {x}, pads}));
    for (const LinearPart& part : parts) {
      std::byte* const sums = part.first_in == 0 ? m.outputs[0] : m.scratch + x_bytes;
      tasks.push_back(part.multiply.bind(
          {{x + part.first_in * element_bytes(types.x), m.inputs[1] + part.first_out * ins + part.first_in},
           {sums + part.first_out * 4},
           pads}));
      const bool completes = part.first_out + part.outs == outs;
      if (completes) tasks.push_back(scaling(m, reinterpret_cast<float*>(sums), part.first_in == 0));
    }
    return [tasks = std::move(tasks)] {
      for (const Task& task : tasks) task();
    };
  }

  // The first sums take the bias; others are added to what is there.
  Task scaling(const Memory& m, const float* sums, bool first) const {
    const auto one = multiplies_bytes() ? scale_row<int32_t> : scale_row<float>;
    return [=, rows = rows, outs = outs, threads = threads, x_scale = m.in<float>(2), w_scale = m.in<float>(3),
            bias = first ? m.in<float>(4) : m.out<float>(), y = m.out<float>()] {
      parallel(threads, rows, kGrain / (outs + 1) + 1, [&](int, int64_t begin, int64_t end) {
        for (int64_t row = begin; row < end; ++row) {
          one(y + row * outs, sums + row * outs, w_scale, first ? bias : bias + row * outs, outs, x_scale[row]);
        }
      });
    };
  }

  // Without products.
  Task empty(const Memory& m) const {
    return [scale = scaling(m, m.out<float>(), true), y = m.outputs[0], bytes = static_cast<size_t>(rows * outs * 4)] {
      std::memset(y, 0, bytes);
      scale();
    };
  }
};

Kernel linear_i8(const Use& use) {
  const ByteLinear linear(use);
  return {linear.scratch_bytes(),
          [linear](const Memory& m) { return linear.ins == 0 ? linear.empty(m) : linear.bind(m); }};
}

// ---- rows of a table of bytes ----

PLIMSOLL_VECTORISED void widen_row(float* y, const int8_t* w, int64_t count, float scale) {
#pragma omp simd
  for (int64_t i = 0; i < count; ++i) y[i] = static_cast<float>(w[i]) * scale;
}

Kernel embedding_i8(const Use& use) {
  const IndexRange range(use, 1, use.in(0).shape[0], false);
  const int64_t count = use.in(1).elements();
  const int64_t columns = use.in(0).shape[1];
  return plain([=, threads = use.threads](const Memory& m) -> Task {
    return [=, w = m.in<int8_t>(0), index = m.in<int64_t>(1), scales = m.in<float>(2), y = m.out<float>()] {
      range.check(index, count);
      parallel(threads, count, kGrain / (columns + 1) + 1, [&](int, int64_t begin, int64_t end) {
        for (int64_t i = begin; i < end; ++i) {
          widen_row(y + i * columns, w + index[i] * columns, columns, scales[index[i]]);
        }
      });
    };
  });
}

}  // namespace

void register_quantize_cpu(KernelTable& table) {
  const Blocking of_images{.rule = Blocking::Rule::together, .inputs = {0}, .outputs = {0}, .same_shape = true};
  table.add("quantize", {quantize, contiguous_only, of_images});
  table.add("quantize_rows", {quantize});
  table.add("linear_i8", {linear_i8});
  table.add("embedding_i8", {embedding_i8});
}

}  // namespace plimsoll::kernels
