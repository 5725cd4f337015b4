// Single elements taken from, or put, where indices say.
#include <algorithm>
#include <cstring>

#include "plimsoll/kernels/cpu/support/dispatch.h"
#include "plimsoll/kernels/cpu/support/indices.h"
#include "plimsoll/kernels/cpu/support/parallel.h"
#include "plimsoll/kernels/tiling.h"

namespace plimsoll::kernels {
namespace {

// The elements of `whole` that an index of operand 1 names: along the axis by its values, along all others by its
// places. Both in row-major order.
struct Named {
  IndexRange range;
  Shape index;
  TensorDesc whole;
  int axis;

  Named(const KernelCall& call, const TensorDesc& named)
      : range(call, 1, named.shape[call.op.axis("axis", 1)], true),
        index(call.in(1).shape),
        whole(contiguous(named.dtype, named.shape)),
        axis(call.op.axis("axis", 1)) {}

  int64_t count() const { return index.elements(); }

  int64_t at(int64_t place, int64_t value) const {
    int64_t offset = range.resolve(value) * whole.stride(axis);
    for (int d = index.rank() - 1; d >= 0; --d) {
      if (d != axis) offset += place % index[d] * whole.stride(d);
      place /= index[d];
    }
    return offset;
  }
};

Kernel gather_elements(const KernelCall& call) {
  const Named named(call, call.in(0));
  return for_size(call.in(0).dtype, [&](auto zero) {
    using T = decltype(zero);
    return plain([named, threads = call.threads](const Memory& m) -> Task {
      return [=, x = m.in<T>(0), index = m.in<int64_t>(1), y = m.out<T>()] {
        named.range.check(index, named.count());
        parallel(threads, named.count(), kGrain, [&](int, int64_t begin, int64_t end) {
          for (int64_t i = begin; i < end; ++i) y[i] = x[named.at(i, index[i])];
        });
      };
    });
  });
}

// On one thread, in the order of the updates: an index may stand twice.
template <class T>
void put(const Named& named, const int64_t* index, const T* updates, T* y, bool adds) {
  for (int64_t i = 0; i < named.count(); ++i) {
    T& target = y[named.at(i, index[i])];
    target = static_cast<T>(adds ? target + updates[i] : updates[i]);
  }
}

Kernel gather_elements_backward(const KernelCall& call) {
  const Named named(call, call.out());
  return for_number(call, call.in(0).dtype, [&](auto zero) {
    using T = decltype(zero);
    return plain([named, elements = call.out().elements()](const Memory& m) -> Task {
      return [=, dy = m.in<T>(0), index = m.in<int64_t>(1), dx = m.out<T>()] {
        named.range.check(index, named.count());
        std::fill(dx, dx + elements, T{});
        put(named, index, dy, dx, true);
      };
    });
  });
}

Kernel scatter_elements(const KernelCall& call) {
  const Named named(call, call.in(0));
  const bool adds = call.op.flag("add");
  return for_number(call, call.in(0).dtype, [&](auto zero) {
    using T = decltype(zero);
    return plain([named, adds, bytes = static_cast<size_t>(call.out().bytes())](const Memory& m) -> Task {
      return [=, x = m.in<T>(0), index = m.in<int64_t>(1), updates = m.in<T>(2), y = m.out<T>()] {
        named.range.check(index, named.count());
        if (x != y) std::memcpy(y, x, bytes);
        put(named, index, updates, y, adds);
      };
    });
  });
}

template <class T>
Kernel one_hot_of(const KernelCall& call) {
  const IndexRange range(call, 0, call.op.integer("depth"), false);
  return plain([range, count = call.in(0).elements()](const Memory& m) -> Task {
    return [=, index = m.in<int64_t>(0), y = m.out<T>()] {
      range.check(index, count);
      std::fill(y, y + count * range.size, T{});
      for (int64_t i = 0; i < count; ++i) y[i * range.size + index[i]] = T{1};
    };
  });
}

Kernel one_hot(const KernelCall& call) {
  if (element_bytes(call.out().dtype) == 1) return one_hot_of<uint8_t>(call);
  return for_number(call, call.out().dtype, [&](auto zero) { return one_hot_of<decltype(zero)>(call); });
}

}  // namespace

void register_elements_cpu(KernelTable& table) {
  table.add("gather_elements", {gather_elements, contiguous_only, {}, nullptr, any_dtype});
  table.add("gather_elements_backward", {gather_elements_backward});
  table.add("scatter_elements", {scatter_elements});
  table.add("one_hot", {one_hot});
}

}  // namespace plimsoll::kernels
