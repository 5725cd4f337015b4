// Sums over dimensions. The result is made row by row: along its last dimension where operands lie so, which is the
// fast way over memory, and along the reduced ones where nothing else is left.
#include "plimsoll/kernels/cpu/support/groups.h"
#include "plimsoll/kernels/cpu/support/vectorised.h"
#include "plimsoll/kernels/kernel.h"

namespace plimsoll::kernels {
namespace {

struct Sum {
  Rows<1> kept;
  Rows<1> reduced;
  float factor;
  int threads;

  Sum(const KernelCall& call, program::AxisSet axes, bool mean)
      : kept(pick(call.in(0), axes, false).shape, {pick(call.in(0), axes, false)}),
        reduced(pick(call.in(0), axes, true).shape, {pick(call.in(0), axes, true)}),
        factor(mean ? 1 / static_cast<float>(pick(call.in(0), axes, true).elements()) : 1),
        threads(call.threads) {}

  int64_t terms() const { return reduced.count() * reduced.length(); }

  // Where term j of a sum lies after its first.
  int64_t term(int64_t j) const {
    return reduced.offsets(j / reduced.length())[0] + j % reduced.length() * reduced.step(0);
  }
};

void add_strided(float* y, const float* x, int64_t step, int64_t count) {
  vectorised([=] {
    if (step == 1) {
#pragma omp simd
      for (int64_t i = 0; i < count; ++i) y[i] += x[i];
    } else {
      for (int64_t i = 0; i < count; ++i) y[i] += x[i * step];
    }
  });
}

float total(const float* x, int64_t step, int64_t count) {
  return vectorised([=] {
    float sum = 0;
    if (step == 1) {
#pragma omp simd reduction(+ : sum)
      for (int64_t i = 0; i < count; ++i) sum += x[i];
    } else {
      for (int64_t i = 0; i < count; ++i) sum += x[i * step];
    }
    return sum;
  });
}

// Part [begin, end) of a row of the result.
void sum_row(const Sum& s, const float* x, float* y, int64_t begin, int64_t end) {
  const int64_t step = s.kept.step(0);
  for (int64_t i = begin; i < end; ++i) y[i] = 0;
  if (s.reduced.step(0) == 1 || end - begin == 1) {
    for (int64_t i = begin; i < end; ++i) {
      double sum = 0;
      for (int64_t row = 0; row < s.reduced.count(); ++row) {
        sum +=
            static_cast<double>(total(x + i * step + s.reduced.offsets(row)[0], s.reduced.step(0), s.reduced.length()));
      }
      y[i] = static_cast<float>(sum);
    }
  } else {
    for (int64_t j = 0; j < s.terms(); ++j) add_strided(y + begin, x + begin * step + s.term(j), step, end - begin);
  }
  for (int64_t i = begin; i < end; ++i) y[i] *= s.factor;
}

Kernel sum(const KernelCall& call, bool mean) {
  call.require_f32(0);
  const Sum s(call, program::reduced_axes(call.op, call.in(0).shape.rank()), mean);
  return plain([s](const Memory& m) -> Task {
    return [=, x = m.in<float>(0), y = m.out<float>()] {
      const int64_t length = s.kept.length();
      const int64_t grain = kGrain / (s.terms() + 1) + 1;
      if (s.kept.count() == 1) {
        parallel(s.threads, length, grain, [&](int, int64_t begin, int64_t end) { sum_row(s, x, y, begin, end); });
        return;
      }
      parallel(s.threads, s.kept.count(), grain / length + 1, [&](int, int64_t begin, int64_t end) {
        for (int64_t row = begin; row < end; ++row) {
          sum_row(s, x + s.kept.offsets(row)[0], y + row * length, 0, length);
        }
      });
    };
  });
}

// Sums over rows are sums of what pieces of them come to.
Tiling tile_of_sum(const KernelCall& call) {
  return axes_of(call).test(0) ? by_rows(call, {0}, {}, {0}) : by_kept_rows(call);
}

}  // namespace

void register_reduce_cpu(KernelTable& table) {
  table.add("sum", {[](const KernelCall& call) { return sum(call, false); }, any_layout, {}, tile_of_sum});
  table.add("mean", {[](const KernelCall& call) { return sum(call, true); }, any_layout, {}, by_kept_rows});
}

}  // namespace plimsoll::kernels
