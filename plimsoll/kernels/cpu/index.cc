// Rows of tables by their index.
#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "plimsoll/base/error.h"
#include "plimsoll/kernels/cpu/support/parallel.h"
#include "plimsoll/kernels/kernel.h"

namespace plimsoll::kernels {
namespace {

// x[outer, size, inner] taken at `count` indices along the middle: y[outer, count, inner].
struct Taken {
  int64_t outer = 1;
  int64_t size = 0;
  int64_t inner = 1;
  int64_t count = 0;
  bool from_end = false;  // negative indices count from the end
  int threads = 1;
  std::string op;  // for messages

  Taken(const Use& use, const Shape& x, int axis, bool negative)
      : size(x[axis]),
        count(use.in(1).elements()),
        from_end(negative),
        threads(use.threads),
        op(fmt::format("{} %{}", use.call.def.name, use.call.label)) {
    if (use.in(1).dtype != DType::i64) use.unsupported("the CPU reads indices of i64");
    for (int i = 0; i < axis; ++i) outer *= x[i];
    for (int i = axis + 1; i < x.rank(); ++i) inner *= x[i];
  }

  void check(const int64_t* index) const {
    const int64_t least = from_end ? -size : 0;
    for (int64_t i = 0; i < count; ++i) {
      if (index[i] >= least && index[i] < size) continue;
      throw ArgumentError(
          fmt::format("{}: index {} at place {} is out of range, expected {} to {}", op, index[i], i, least, size - 1));
    }
  }

  int64_t resolve(int64_t index) const { return index < 0 ? index + size : index; }
};

Kernel gather(const Use& use, int axis, bool from_end) {
  const Taken taken(use, use.in(0).shape, axis, from_end);
  const int64_t bytes = taken.inner * element_bytes(use.in(0).dtype);
  return plain([=](const Memory& m) -> Task {
    return [=, x = m.in<std::byte>(0), index = m.in<int64_t>(1), y = m.out<std::byte>()] {
      taken.check(index);
      parallel(taken.threads, taken.outer * taken.count, kGrain * 4 / (bytes + 1) + 1,
               [&](int, int64_t begin, int64_t end) {
                 for (int64_t row = begin; row < end; ++row) {
                   const int64_t from = row / taken.count * taken.size + taken.resolve(index[row % taken.count]);
                   std::memcpy(y + row * bytes, x + from * bytes, static_cast<size_t>(bytes));
                 }
               });
    };
  });
}

// Each thread has rows of the table of its own and looks at all indices, so the sums are the same in every run.
Kernel gather_backward(const Use& use) {
  use.require_f32(0);
  const auto axis = static_cast<int>(use.call.integer("axis"));
  const Taken taken(use, use.out().shape, axis, true);
  const int64_t padding = use.call.integer("padding");
  return plain([=](const Memory& m) -> Task {
    return [=, dy = m.in<float>(0), index = m.in<int64_t>(1), dx = m.out<float>()] {
      taken.check(index);
      parallel(taken.threads, taken.size, kGrain / (taken.inner + 1) + 1, [&](int, int64_t first, int64_t last) {
        for (int64_t o = 0; o < taken.outer; ++o) {
          float* table = dx + o * taken.size * taken.inner;
          std::fill(table + first * taken.inner, table + last * taken.inner, 0.0F);
          for (int64_t i = 0; i < taken.count; ++i) {
            const int64_t row = taken.resolve(index[i]);
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
  table.add("embedding", {[](const Use& use) { return gather(use, 0, false); }});
  table.add("gather", {[](const Use& use) { return gather(use, use.call.axis("axis"), true); }});
  table.add("gather_backward", {gather_backward});
}

}  // namespace plimsoll::kernels
