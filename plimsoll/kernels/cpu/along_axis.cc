// Ops along one dimension of arrays in row-major order.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "plimsoll/base/bytes.h"
#include "plimsoll/kernels/cpu/support/dispatch.h"
#include "plimsoll/kernels/cpu/support/lines.h"

namespace plimsoll::kernels {
namespace {

// Whether a comes before b; NaN counts as the largest.
template <class T>
bool larger(T a, T b) {
  return a > b || (std::isnan(a) && !std::isnan(b));
}

// The place of the first element that none is `better` than; NaN is better than all.
template <class T, class F>
Kernel place_of(const KernelCall& call, F better) {
  const Lines lines(call.in(0), call.op.axis("axis"));
  return plain([=, threads = call.threads](const Memory& m) -> Task {
    return [=, x = m.in<T>(0), y = m.out<int64_t>()] {
      parallel(threads, lines.count(), lines.grain(), [&](int, int64_t begin, int64_t end) {
        for (int64_t line = begin; line < end; ++line) {
          const T* first = x + lines.start(line);
          int64_t best = 0;
          for (int64_t i = 1; i < lines.length; ++i) {
            const T a = first[i * lines.stride];
            const T b = first[best * lines.stride];
            if (better(a, b) || (std::isnan(a) && !std::isnan(b))) best = i;
          }
          y[line] = best;
        }
      });
    };
  });
}

template <class F>
void arg(KernelTable& table, const char* op, F better) {
  table.add(op, {[better](const KernelCall& call) {
              return for_number(call, call.in(0).dtype, [&](auto z) { return place_of<decltype(z)>(call, better); });
            }});
}

// Sums of reals are kept in f64. y may lie where x does.
template <class T>
void sum_line(const T* x, T* y, int64_t length, int64_t stride, bool exclusive) {
  using Sum = std::conditional_t<std::is_floating_point_v<T>, double, T>;
  Sum sum = 0;
  for (int64_t i = 0; i < length; ++i, x += stride, y += stride) {
    const Sum before = sum;
    sum += static_cast<Sum>(*x);
    *y = static_cast<T>(exclusive ? before : sum);
  }
}

Kernel cumsum(const KernelCall& call) {
  const Lines lines(call.in(0), call.op.axis("axis"));
  const bool exclusive = call.op.flag("exclusive");
  const bool reverse = call.op.flag("reverse");
  return for_number(call, call.in(0).dtype, [&](auto zero) {
    using T = decltype(zero);
    return plain([=, threads = call.threads](const Memory& m) -> Task {
      return [=, x = m.in<T>(0), y = m.out<T>()] {
        parallel(threads, lines.count(), lines.grain(), [&](int, int64_t begin, int64_t end) {
          for (int64_t line = begin; line < end; ++line) {
            const int64_t first = lines.start(line) + (reverse ? (lines.length - 1) * lines.stride : 0);
            sum_line(x + first, y + first, lines.length, reverse ? -lines.stride : lines.stride, exclusive);
          }
        });
      };
    });
  });
}

// Places along a line, the k largest (or smallest) first; equals in their order.
template <class T>
void rank(const T* x, const Lines& lines, int64_t k, bool largest, int64_t* order) {
  std::iota(order, order + lines.length, 0);
  std::partial_sort(order, order + k, order + lines.length, [&](int64_t a, int64_t b) {
    const T first = x[a * lines.stride];
    const T second = x[b * lines.stride];
    if (larger(first, second)) return largest;
    if (larger(second, first)) return !largest;
    return a < b;
  });
}

Kernel top_k(const KernelCall& call) {
  const int axis = call.op.axis("axis");
  const Lines from(call.in(0), axis);
  const Lines to(call.out(), axis);
  const bool largest = call.op.flag("largest");
  const int64_t order_bytes = align_up(from.length * 8, kAlignment);
  return for_number(call, call.in(0).dtype, [&](auto zero) {
    using T = decltype(zero);
    const auto bind = [=, threads = call.threads](const Memory& m) -> Task {
      return [=, x = m.in<T>(0), y = m.out<T>(), index = m.out<int64_t>(1)] {
        parallel(threads, from.count(), from.grain(), [&](int part, int64_t begin, int64_t end) {
          auto* order = m.scratch_at<int64_t>(part * order_bytes);
          for (int64_t line = begin; line < end; ++line) {
            const T* first = x + from.start(line);
            rank(first, from, to.length, largest, order);
            for (int64_t k = 0; k < to.length; ++k) {
              y[to.start(line) + k * to.stride] = first[order[k] * from.stride];
              index[to.start(line) + k * to.stride] = order[k];
            }
          }
        });
      };
    };
    return Kernel{call.threads * order_bytes, bind};
  });
}

}  // namespace

void register_along_axis_cpu(KernelTable& table) {
  arg(table, "argmax", [](auto a, auto b) { return a > b; });
  arg(table, "argmin", [](auto a, auto b) { return a < b; });
  table.add("cumsum", {cumsum});
  table.add("top_k", {top_k});
}

}  // namespace plimsoll::kernels
