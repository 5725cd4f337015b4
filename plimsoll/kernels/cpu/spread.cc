// Reductions other than sums: extremes, products, norms and variances, with their gradients. Sums are kept in f64.
#include <algorithm>
#include <cmath>

#include "plimsoll/kernels/cpu/support/dispatch.h"
#include "plimsoll/kernels/cpu/support/groups.h"

namespace plimsoll::kernels {
namespace {

Groups groups_of(const KernelCall& call, const TensorDesc& tensor) {
  return {tensor, program::reduced_axes(call.op, tensor.shape.rank())};
}

// Calls f(group) for all groups.
template <class F>
void for_each_group(int threads, const Groups& groups, const F& f) {
  parallel(threads, groups.count(), groups.grain(), [&](int, int64_t begin, int64_t end) {
    for (int64_t group = begin; group < end; ++group) f(group);
  });
}

// y = f(groups, the first element of a group)
template <class T, class F>
Kernel reduction(const KernelCall& call, F f) {
  return plain([groups = groups_of(call, call.in(0)), threads = call.threads, f](const Memory& m) -> Task {
    return [=, x = m.in<T>(0), y = m.out<T>()] {
      for_each_group(threads, groups, [&](int64_t group) { y[group] = f(groups, x + groups.start(group)); });
    };
  });
}

// dx from dy, x and perhaps y: f(groups, dy, y, x, dx), of one group each. x and dx lie in row-major order and may be
// the same.
template <class T, class F>
Kernel reduction_backward(const KernelCall& call, F f) {
  return plain([groups = groups_of(call, call.in(1)), threads = call.threads, f](const Memory& m) -> Task {
    return [=, dy = m.in<T>(0), x = m.in<T>(1), y = m.in<T>(2), dx = m.out<T>()] {
      for_each_group(threads, groups, [&](int64_t group) {
        const int64_t at = groups.start(group);
        f(groups, dy[group], y == nullptr ? T{} : y[group], x + at, dx + at);
      });
    };
  });
}

void add(KernelTable& table, const char* op, Accepts accepts, std::function<Kernel(const KernelCall&)> prepare) {
  table.add(op, {std::move(prepare), accepts, {}, by_kept_rows});
}

// ---- extremes ----

template <class T>
bool is_nan(T x) {
  if constexpr (std::is_floating_point_v<T>) return std::isnan(x);
  return false;
}

// The first element that no other is better than; NaN is better than all.
template <class T, class F>
Kernel extreme_of(const KernelCall& call, F better) {
  return plain([groups = groups_of(call, call.in(0)), threads = call.threads, better,
                produces = call.produces(1)](const Memory& m) -> Task {
    return [=, x = m.in<T>(0), y = m.out<T>(), index = produces ? m.out<int32_t>(1) : nullptr] {
      for_each_group(threads, groups, [&](int64_t group) {
        const T* first = x + groups.start(group);
        T best = *first;
        int32_t place = 0;
        int32_t next = 0;
        groups.for_each_term([&](int64_t at) {
          if (better(first[at], best) || (is_nan(first[at]) && !is_nan(best))) {
            best = first[at];
            place = next;
          }
          ++next;
        });
        y[group] = best;
        if (index != nullptr) index[group] = place;
      });
    };
  });
}

template <class F>
void extreme(KernelTable& table, const char* op, F better) {
  add(table, op, any_layout, [better](const KernelCall& call) {
    return for_number(call, call.in(0).dtype, [&](auto zero) { return extreme_of<decltype(zero)>(call, better); });
  });
}

Kernel extreme_backward(const KernelCall& call) {
  return for_real(call, call.in(0).dtype, [&](auto zero) {
    using T = decltype(zero);
    return plain([groups = groups_of(call, call.out()), count = call.out().elements()](const Memory& m) -> Task {
      return [=, dy = m.in<T>(0), index = m.in<int32_t>(1), dx = m.out<T>()] {
        std::fill(dx, dx + count, T{});
        for (int64_t group = 0; group < groups.count(); ++group) {
          dx[groups.start(group) + groups.term(index[group])] = dy[group];
        }
      };
    });
  });
}

// ---- products, norms, variances ----

template <class T>
T product(const Groups& groups, const T* x) {
  T product = 1;
  groups.for_each_term([&](int64_t at) { product = static_cast<T>(product * x[at]); });
  return product;
}

// The product of all others: of those before, then of those after. A zero among them is no special case.
template <class T>
void product_backward(const Groups& groups, T dy, T /*y*/, const T* x, T* dx) {
  T before = 1;
  groups.for_each_term([&](int64_t at) {
    dx[at] = before;
    before *= x[at];
  });
  T after = dy;
  groups.for_each_term_backwards([&](int64_t at) {
    dx[at] *= after;
    after *= x[at];
  });
}

template <class T>
T norm(const Groups& groups, const T* x) {
  double sum = 0;
  groups.for_each_term([&](int64_t at) { sum += static_cast<double>(x[at]) * static_cast<double>(x[at]); });
  return static_cast<T>(std::sqrt(sum));
}

// Zero where the norm is: the corner has no slope.
template <class T>
void norm_backward(const Groups& groups, T dy, T y, const T* x, T* dx) {
  groups.for_each_term([&](int64_t at) { dx[at] = y == 0 ? 0 : dy * x[at] / y; });
}

template <class T>
double mean(const Groups& groups, const T* x) {
  double sum = 0;
  groups.for_each_term([&](int64_t at) { sum += static_cast<double>(x[at]); });
  return sum / static_cast<double>(groups.terms());
}

template <class T>
T variance(const Groups& groups, const T* x, int64_t correction) {
  const double centre = mean(groups, x);
  double sum = 0;
  groups.for_each_term([&](int64_t at) {
    const double distance = static_cast<double>(x[at]) - centre;
    sum += distance * distance;
  });
  return static_cast<T>(sum / static_cast<double>(groups.terms() - correction));
}

template <class T>
void variance_backward(const Groups& groups, T dy, const T* x, T* dx, int64_t correction) {
  const double centre = mean(groups, x);
  const double scale = 2 * static_cast<double>(dy) / static_cast<double>(groups.terms() - correction);
  groups.for_each_term([&](int64_t at) { dx[at] = static_cast<T>(scale * (static_cast<double>(x[at]) - centre)); });
}

Kernel var(const KernelCall& call) {
  const int64_t correction = call.op.integer("correction");
  return for_real(call, call.in(0).dtype, [&](auto zero) {
    using T = decltype(zero);
    return reduction<T>(call, [=](const Groups& groups, const T* x) { return variance(groups, x, correction); });
  });
}

Kernel var_backward(const KernelCall& call) {
  const int64_t correction = call.op.integer("correction");
  return for_real(call, call.in(0).dtype, [&](auto zero) {
    using T = decltype(zero);
    return reduction_backward<T>(call, [=](const Groups& groups, T dy, T, const T* x, T* dx) {
      variance_backward(groups, dy, x, dx, correction);
    });
  });
}

}  // namespace

void register_spread_cpu(KernelTable& table) {
  extreme(table, "max", [](auto a, auto b) { return a > b; });
  extreme(table, "min", [](auto a, auto b) { return a < b; });
  add(table, "extreme_backward", contiguous_only, extreme_backward);
  add(table, "prod", any_layout, [](const KernelCall& call) {
    return for_number(call, call.in(0).dtype,
                      [&](auto z) { return reduction<decltype(z)>(call, product<decltype(z)>); });
  });
  add(table, "prod_backward", contiguous_only, [](const KernelCall& call) {
    return for_real(call, call.in(0).dtype,
                    [&](auto z) { return reduction_backward<decltype(z)>(call, product_backward<decltype(z)>); });
  });
  add(table, "norm2", any_layout, [](const KernelCall& call) {
    return for_real(call, call.in(0).dtype, [&](auto z) { return reduction<decltype(z)>(call, norm<decltype(z)>); });
  });
  add(table, "norm2_backward", contiguous_only, [](const KernelCall& call) {
    return for_real(call, call.in(0).dtype,
                    [&](auto z) { return reduction_backward<decltype(z)>(call, norm_backward<decltype(z)>); });
  });
  add(table, "var", any_layout, var);
  add(table, "var_backward", contiguous_only, var_backward);
}

}  // namespace plimsoll::kernels
