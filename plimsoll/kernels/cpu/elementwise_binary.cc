#include <algorithm>
#include <cmath>

#include "plimsoll/kernels/cpu/support/dispatch.h"
#include "plimsoll/kernels/cpu/support/low_precision_copy.h"
#include "plimsoll/kernels/cpu/support/parallel.h"
#include "plimsoll/kernels/cpu/support/rows.h"
#include "plimsoll/kernels/cpu/support/vectorised.h"
#include "plimsoll/kernels/kernel.h"
#include "plimsoll/kernels/tiling.h"

namespace plimsoll::kernels {
namespace {

// One row: operands go on by 1, by 0 or by any step.
template <class X, class Y, class F>
void map_row(Y* y, const X* x, int64_t x_step, const X* z, int64_t z_step, int64_t count, F f) {
  vectorised([=] {
    if (x_step == 1 && z_step == 1) {
#pragma omp simd
      for (int64_t i = 0; i < count; ++i) y[i] = f(x[i], z[i]);
    } else if (x_step == 1 && z_step == 0) {
      const X one = *z;
#pragma omp simd
      for (int64_t i = 0; i < count; ++i) y[i] = f(x[i], one);
    } else {
      for (int64_t i = 0; i < count; ++i) y[i] = f(x[i * x_step], z[i * z_step]);
    }
  });
}

// Calls f(row, begin, end) for parts of rows: long rows are cut, short ones are taken together.
template <class F>
void parallel_rows(int threads, int64_t rows, int64_t length, const F& f) {
  if (rows == 1) {
    parallel(threads, length, kGrain, [&](int, int64_t begin, int64_t end) { f(int64_t{0}, begin, end); });
  } else {
    parallel(threads, rows, kGrain / (length + 1) + 1, [&](int, int64_t first, int64_t last) {
      for (int64_t row = first; row < last; ++row) f(row, int64_t{0}, length);
    });
  }
}

// y = f(x, z) with broadcasting
template <class X, class Y, class F>
Kernel binary_kernel(const KernelCall& call, F f) {
  const Rows<2> rows(call.out().shape, {call.in(0), call.in(1)});
  return plain([rows, threads = call.threads, f](const Memory& m) -> Task {
    return [=, x = m.in<X>(0), z = m.in<X>(1), y = m.out<Y>()] {
      const int64_t length = rows.length();
      parallel_rows(threads, rows.count(), length, [=](int64_t row, int64_t begin, int64_t end) {
        const auto at = rows.offsets(row);
        map_row(y + row * length + begin, x + at[0] + begin * rows.step(0), rows.step(0),
                z + at[1] + begin * rows.step(1), rows.step(1), end - begin, f);
      });
    };
  });
}

// Element by element where the operands are of one shape or single, else along the first dimension of the result.
Tiling tile_broadcast(const KernelCall& call) {
  const Shape& y = call.out().shape;
  const auto is_simple = [&](const TensorDesc& x) { return x.shape == y || x.elements() == 1; };
  if (std::all_of(call.inputs.begin(), call.inputs.end(), is_simple)) {
    const Tiling tiling = by_elements(call);
    if (tiling.rule != Tiling::Rule::never) return tiling;
  }
  if (y.rank() == 0) return {};
  Tiling tiling{.rule = Tiling::Rule::rows, .count = y[0], .outputs = {0}};
  for (int i = 0; i < call.arity(); ++i) {
    if (call.in(i).shape.rank() == y.rank() && call.in(i).shape[0] == y[0]) tiling.inputs.push_back(i);
  }
  return tiling;
}

// Of one shape, element by element, so in any order that is the same for all.
const Blocking kSameShape{.rule = Blocking::Rule::together, .inputs = {0, 1}, .outputs = {0}, .same_shape = true};

template <class F>
Kernel arithmetic_kernel(const KernelCall& call, F f) {
  switch (call.in(0).dtype) {
    case DType::f32:
      return binary_kernel<float, float>(call, f);
    case DType::i64:
      return binary_kernel<int64_t, int64_t>(call, f);
    default:
      call.unsupported("the CPU computes this in f32 and i64");
  }
}

template <class F>
void arithmetic(KernelTable& table, const char* op, F f) {
  table.add(
      op, {[f](const KernelCall& call) { return arithmetic_kernel(call, f); }, any_layout, kSameShape, tile_broadcast});
}

// Sums of f16 and bf16 in place, where both operands lie as the result does.
bool adds_in_order(const KernelCall& call) {
  return std::all_of(call.inputs.begin(), call.inputs.end(), [&](const TensorDesc& x) {
    return is_low_precision(x.dtype) && x.shape == call.out().shape && (x.blocked || x.is_contiguous());
  });
}

Kernel add(const KernelCall& call) {
  if (!adds_in_order(call)) return arithmetic_kernel(call, [](auto x, auto z) { return x + z; });
  const int64_t size = element_bytes(call.out().dtype);
  return plain([=, sum = element_loops(call.out().dtype).add, count = call.out().elements(),
                threads = call.threads](const Memory& m) -> Task {
    return [=, x = m.inputs[0], z = m.inputs[1], y = m.outputs[0]] {
      parallel(threads, count, kGrain, [=](int, int64_t begin, int64_t end) {
        sum(y + begin * size, x + begin * size, z + begin * size, end - begin);
      });
    };
  });
}

template <class F>
void on_reals(KernelTable& table, const char* op, F f) {
  table.add(op, {[f](const KernelCall& call) {
                   call.require_f32(0);
                   return binary_kernel<float, float>(call, f);
                 },
                 any_layout, kSameShape, tile_broadcast});
}

template <class F>
void predicate(KernelTable& table, const char* op, F f) {
  table.add(op, {[f](const KernelCall& call) -> Kernel {
                   switch (call.in(0).dtype) {
                     case DType::f32:
                       return binary_kernel<float, uint8_t>(call, f);
                     case DType::i64:
                       return binary_kernel<int64_t, uint8_t>(call, f);
                     case DType::boolean:
                       return binary_kernel<uint8_t, uint8_t>(call, f);
                     default:
                       call.unsupported("the CPU compares f32, i64 and bool");
                   }
                 },
                 any_layout,
                 {},
                 tile_broadcast});
}

// x where takes(x, z), else z, and a bit for each element that says so: one thread, for bits share bytes.
template <class F>
Kernel choice_kernel(const KernelCall& call, F takes) {
  call.require_f32(0);
  const Rows<2> rows(call.out().shape, {call.in(0), call.in(1)});
  return plain([rows, takes, produces = call.produces(1)](const Memory& m) -> Task {
    return
        [=, x = m.in<float>(0), z = m.in<float>(1), y = m.out<float>(), mask = produces ? m.out<uint8_t>(1) : nullptr] {
          int64_t place = 0;
          for (int64_t row = 0; row < rows.count(); ++row) {
            const auto at = rows.offsets(row);
            for (int64_t i = 0; i < rows.length(); ++i, ++place) {
              const float a = x[at[0] + i * rows.step(0)];
              const float b = z[at[1] + i * rows.step(1)];
              const bool taken = takes(a, b);
              if (mask != nullptr && place % 8 == 0) mask[place / 8] = 0;
              if (mask != nullptr && taken) mask[place / 8] = static_cast<uint8_t>(mask[place / 8] | 1U << place % 8);
              y[place] = taken ? a : b;
            }
          }
        };
  });
}

// dy * slope(x, z), all as broadcast
template <class F>
void pow_backward(KernelTable& table, const char* op, F slope) {
  table.add(op, {[slope](const KernelCall& call) {
                   call.require_f32(0);
                   const Rows<3> rows(call.out().shape, {call.in(0), call.in(1), call.in(2)});
                   return plain([=](const Memory& m) -> Task {
                     return [=, dy = m.in<float>(0), x = m.in<float>(1), z = m.in<float>(2), dx = m.out<float>()] {
                       for (int64_t row = 0, place = 0; row < rows.count(); ++row) {
                         const auto at = rows.offsets(row);
                         for (int64_t i = 0; i < rows.length(); ++i, ++place) {
                           dx[place] = dy[at[0] + i * rows.step(0)] *
                                       slope(x[at[1] + i * rows.step(1)], z[at[2] + i * rows.step(2)]);
                         }
                       }
                     };
                   });
                 },
                 any_layout,
                 {},
                 tile_broadcast});
}

template <class T>
Kernel where_kernel(const KernelCall& call) {
  const Rows<3> rows(call.out().shape, {call.in(0), call.in(1), call.in(2)});
  return plain([rows, threads = call.threads](const Memory& m) -> Task {
    return [=, condition = m.in<uint8_t>(0), x = m.in<T>(1), z = m.in<T>(2), y = m.out<T>()] {
      parallel_rows(threads, rows.count(), rows.length(), [=](int64_t row, int64_t begin, int64_t end) {
        const auto at = rows.offsets(row);
        for (int64_t i = begin; i < end; ++i) {
          const bool holds = condition[at[0] + i * rows.step(0)] != 0;
          y[row * rows.length() + i] = holds ? x[at[1] + i * rows.step(1)] : z[at[2] + i * rows.step(2)];
        }
      });
    };
  });
}

Kernel where(const KernelCall& call) {
  return for_size(call.out().dtype, [&](auto zero) { return where_kernel<decltype(zero)>(call); });
}

Kernel keep_where(const KernelCall& call) {
  call.require_f32(0);
  const Rows<2> rows(call.out().shape, {call.in(0), call.in(1)});
  return plain([rows, threads = call.threads, when = call.op.flag("when")](const Memory& m) -> Task {
    return [=, x = m.in<float>(0), condition = m.in<uint8_t>(1), y = m.out<float>()] {
      parallel_rows(threads, rows.count(), rows.length(), [=](int64_t row, int64_t begin, int64_t end) {
        const auto at = rows.offsets(row);
        for (int64_t i = begin; i < end; ++i) {
          const bool holds = condition[at[1] + i * rows.step(1)] != 0;
          y[row * rows.length() + i] = holds == when ? x[at[0] + i * rows.step(0)] : 0;
        }
      });
    };
  });
}

Kernel logical_not(const KernelCall& call) {
  return plain([count = call.out().elements()](const Memory& m) -> Task {
    return [=, x = m.in<uint8_t>(0), y = m.out<uint8_t>()] {
      for (int64_t i = 0; i < count; ++i) y[i] = x[i] == 0;
    };
  });
}

void register_predicates(KernelTable& table) {
  predicate(table, "eq", [](auto x, auto z) { return x == z; });
  predicate(table, "ne", [](auto x, auto z) { return x != z; });
  predicate(table, "lt", [](auto x, auto z) { return x < z; });
  predicate(table, "le", [](auto x, auto z) { return x <= z; });
  predicate(table, "gt", [](auto x, auto z) { return x > z; });
  predicate(table, "ge", [](auto x, auto z) { return x >= z; });
  predicate(table, "logical_and", [](auto x, auto z) { return x != 0 && z != 0; });
  predicate(table, "logical_or", [](auto x, auto z) { return x != 0 || z != 0; });
  predicate(table, "logical_xor", [](auto x, auto z) { return (x != 0) != (z != 0); });
  table.add("logical_not", {logical_not});
}

}  // namespace

void register_elementwise_binary_cpu(KernelTable& table) {
  table.add("add", {add, any_layout, kSameShape, tile_broadcast, adds_in_order});
  arithmetic(table, "sub", [](auto x, auto z) { return x - z; });
  arithmetic(table, "mul", [](auto x, auto z) { return x * z; });
  on_reals(table, "div", [](float x, float z) { return x / z; });
  on_reals(table, "pow", [](float x, float z) { return std::pow(x, z); });
  pow_backward(table, "pow_backward_base", [](float x, float z) { return z == 0 ? 0 : z * std::pow(x, z - 1); });
  pow_backward(table, "pow_backward_exponent",
               [](float x, float z) { return x == 0 && z >= 0 ? 0 : std::pow(x, z) * std::log(x); });
  // NaN wins, whichever operand it is in.
  table.add("maximum", {[](const KernelCall& call) {
                          return choice_kernel(call, [](float x, float z) { return x >= z || std::isnan(x); });
                        },
                        any_layout});
  table.add("minimum", {[](const KernelCall& call) {
                          return choice_kernel(call, [](float x, float z) { return x <= z || std::isnan(x); });
                        },
                        any_layout});
  table.add("where", {where, any_layout, {}, nullptr, any_dtype});
  table.add("keep_where", {keep_where, any_layout, {}, tile_broadcast});
  register_predicates(table);
}

}  // namespace plimsoll::kernels
