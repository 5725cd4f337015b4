// Rows of tables by their index.
#include <algorithm>
#include <cstring>

#include "plimsoll/kernels/cpu/support/indices.h"
#include "plimsoll/kernels/cpu/support/parallel.h"
#include "plimsoll/kernels/kernel.h"
#include "plimsoll/kernels/tiling.h"

namespace plimsoll::kernels {
namespace {

// x[outer, size, inner] taken at `count` indices along the middle: y[outer, count, inner].
struct Taken {
  IndexRange range;
  int64_t outer = 1;
  int64_t inner = 1;
  int64_t count;
  int threads;

  Taken(const KernelCall& call, const Shape& x, int axis, bool negative)
      : range(call, 1, x[axis], negative), count(call.in(1).elements()), threads(call.threads) {
    for (int i = 0; i < axis; ++i) outer *= x[i];
    for (int i = axis + 1; i < x.rank(); ++i) inner *= x[i];
  }

  int64_t size() const { return range.size; }
};

Kernel gather(const KernelCall& call, int axis, bool from_end) {
  const Taken taken(call, call.in(0).shape, axis, from_end);
  const int64_t bytes = taken.inner * element_bytes(call.in(0).dtype);
  return plain([=](const Memory& m) -> Task {
    return [=, x = m.in<std::byte>(0), index = m.in<int64_t>(1), y = m.out<std::byte>()] {
      taken.range.check(index, taken.count);
      parallel(
          taken.threads, taken.outer * taken.count, kGrain * 4 / (bytes + 1) + 1, [&](int, int64_t begin, int64_t end) {
            for (int64_t row = begin; row < end; ++row) {
              const int64_t from = row / taken.count * taken.size() + taken.range.resolve(index[row % taken.count]);
              std::memcpy(y + row * bytes, x + from * bytes, static_cast<size_t>(bytes));
            }
          });
    };
  });
}

// Each thread has rows of the table of its own and looks at all indices, so the sums are the same in every run.
Kernel gather_backward(const KernelCall& call) {
  call.require_f32(0);
  const auto axis = static_cast<int>(call.op.integer("axis"));
  const Taken taken(call, call.out().shape, axis, true);
  const int64_t padding = call.op.integer("padding");
  return plain([=](const Memory& m) -> Task {
    return [=, dy = m.in<float>(0), index = m.in<int64_t>(1), dx = m.out<float>()] {
      taken.range.check(index, taken.count);
      parallel(taken.threads, taken.size(), kGrain / (taken.inner + 1) + 1, [&](int, int64_t first, int64_t last) {
        for (int64_t o = 0; o < taken.outer; ++o) {
          float* table = dx + o * taken.size() * taken.inner;
          std::fill(table + first * taken.inner, table + last * taken.inner, 0.0F);
          for (int64_t i = 0; i < taken.count; ++i) {
            const int64_t row = taken.range.resolve(index[i]);
            if (row < first || row >= last || row == padding) continue;
            const float* from = dy + (o * taken.count + i) * taken.inner;
            for (int64_t j = 0; j < taken.inner; ++j) table[row * taken.inner + j] += from[j];
          }
        }
      });
    };
  });
}

}  // namespace

void register_index_cpu(KernelTable& table) {
  table.add("embedding",
            {[](const KernelCall& call) { return gather(call, 0, false); }, contiguous_only, {}, nullptr, any_dtype});
  table.add("gather", {[](const KernelCall& call) { return gather(call, call.op.axis("axis"), true); },
                       contiguous_only,
                       {},
                       nullptr,
                       any_dtype});
  table.add("gather_backward", {gather_backward});
}

}  // namespace plimsoll::kernels
