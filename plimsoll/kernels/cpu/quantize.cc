// Numbers as bytes, and tables of bytes.
#include <algorithm>
#include <bit>

#include "plimsoll/base/bytes.h"
#include "plimsoll/kernels/cpu/support/indices.h"
#include "plimsoll/kernels/cpu/support/parallel.h"
#include "plimsoll/kernels/cpu/support/vectorised.h"
#include "plimsoll/program/quantization.h"

namespace plimsoll::kernels {
namespace {

// ---- numbers as bytes ----

// NaN where one of them is: its bits, as those of infinity, are above all others.
uint32_t largest_bits(const float* x, int64_t count) {
  return vectorised([=] {
    int32_t most = 0;
#pragma omp simd reduction(max : most)
    for (int64_t i = 0; i < count; ++i) most = std::max(most, std::bit_cast<int32_t>(x[i]) & INT32_MAX);
    return static_cast<uint32_t>(most);
  });
}

template <class Byte>
void to_bytes(Byte* bytes, const float* x, int64_t count, float inverse, float least, float most) {
  vectorised([=] {
    constexpr float kRound = 12582912.0F;  // 1.5 * 2^23: adding it leaves no fraction
#pragma omp simd
    for (int64_t i = 0; i < count; ++i) {
      const float scaled = x[i] * inverse;
      const float number = scaled == scaled ? scaled : 0.0F;
      const float held = number < least ? least : number > most ? most : number;
      bytes[i] = static_cast<Byte>(static_cast<int32_t>((held + kRound) - kRound));
    }
  });
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
Kernel quantize(const KernelCall& call) {
  call.require_f32(0);
  const int64_t rows = call.out(1).elements();
  const Quantize how{rows, call.in(0).elements() / std::max<int64_t>(rows, 1), call.out().dtype, call.threads};
  return {align_up(call.threads * 4, kAlignment), [how](const Memory& m) -> Task {
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

// ---- rows of a table of bytes ----

void widen_row(float* y, const int8_t* w, int64_t count, float scale) {
  vectorised([=] {
#pragma omp simd
    for (int64_t i = 0; i < count; ++i) y[i] = static_cast<float>(w[i]) * scale;
  });
}

Kernel embedding_i8(const KernelCall& call) {
  const IndexRange range(call, 1, call.in(0).shape[0], false);
  const int64_t count = call.in(1).elements();
  const int64_t columns = call.in(0).shape[1];
  return plain([=, threads = call.threads](const Memory& m) -> Task {
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
  table.add("embedding_i8", {embedding_i8});
}

}  // namespace plimsoll::kernels
