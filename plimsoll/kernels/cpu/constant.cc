#include <algorithm>
#include <cmath>

#include "plimsoll/kernels/cpu/support/parallel.h"
#include "plimsoll/kernels/kernel.h"
#include "plimsoll/kernels/tiling.h"

namespace plimsoll::kernels {
namespace {

template <class T>
Kernel fill_with(const KernelCall& call, T value) {
  return plain([value, count = call.out().elements(), threads = call.threads](const Memory& m) -> Task {
    return [=, y = m.out<T>()] {
      parallel(threads, count, kGrain, [=](int, int64_t begin, int64_t end) { std::fill(y + begin, y + end, value); });
    };
  });
}

Kernel fill(const KernelCall& call) {
  const double value = call.op.real("value");
  switch (call.out().dtype) {
    case DType::f32:
      return fill_with(call, static_cast<float>(value));
    case DType::f64:
      return fill_with(call, value);
    case DType::i64:
      return fill_with(call, static_cast<int64_t>(std::floor(value)));
    case DType::i32:
      return fill_with(call, static_cast<int32_t>(std::floor(value)));
    case DType::boolean:
      return fill_with(call, static_cast<uint8_t>(value != 0));
    default:
      call.unsupported("the CPU fills f32, f64, i32, i64 and bool");
  }
}

}  // namespace

void register_constant_cpu(KernelTable& table) { table.add("fill", {fill, contiguous_only, {}, by_elements}); }

}  // namespace plimsoll::kernels
