#include "plimsoll/kernels/cpu/support/lines.h"
#include "plimsoll/kernels/cpu/support/vectorised.h"
#include "plimsoll/kernels/tiling.h"

namespace plimsoll::kernels {
namespace {

// Calls f(where the line starts) for every line.
template <class F>
void for_each_line(const Lines& lines, int threads, const F& f) {
  parallel(threads, lines.count(), lines.grain(), [&](int, int64_t begin, int64_t end) {
    for (int64_t line = begin; line < end; ++line) f(lines.start(line));
  });
}

void exponentials(float* y, const float* x, int64_t length, int64_t stride, float largest, float factor) {
  vectorised([=] {
    if (stride == 1) {
#pragma omp simd
      for (int64_t i = 0; i < length; ++i) y[i] = fast_exp(x[i] - largest) * factor;
    } else {
      for (int64_t i = 0; i < length; ++i) y[i * stride] = fast_exp(x[i * stride] - largest) * factor;
    }
  });
}

Kernel softmax(const KernelCall& call) {
  call.require_f32(0);
  const Lines lines(call.in(0), call.op.axis("axis"));
  return plain([lines, threads = call.threads](const Memory& m) -> Task {
    return [=, x = m.in<float>(0), y = m.out<float>()] {
      for_each_line(lines, threads, [=](int64_t at) {
        const float largest = lines.largest(x + at);
        exponentials(y + at, x + at, lines.length, lines.stride, largest, 1 / lines.exp_sum(x + at, largest));
      });
    };
  });
}

Kernel log_softmax(const KernelCall& call) {
  call.require_f32(0);
  const Lines lines(call.in(0), call.op.axis("axis"));
  return plain([lines, threads = call.threads](const Memory& m) -> Task {
    return [=, x = m.in<float>(0), y = m.out<float>()] {
      for_each_line(lines, threads, [=](int64_t at) {
        const float lse = lines.log_sum_exp(x + at);
        for (int64_t i = 0; i < lines.length; ++i) y[at + i * lines.stride] = x[at + i * lines.stride] - lse;
      });
    };
  });
}

// dx = f(dy, y, sum of part(dy, y) along the line)
template <class Part, class F>
Kernel backward(const KernelCall& call, Part part, F f) {
  call.require_f32(0);
  call.require_f32(1);
  const Lines lines(call.in(0), call.op.axis("axis"));
  return plain([=, threads = call.threads](const Memory& m) -> Task {
    return [=, dy = m.in<float>(0), y = m.in<float>(1), dx = m.out<float>()] {
      for_each_line(lines, threads, [=](int64_t start) {
        const auto at = [&](int64_t i) { return start + i * lines.stride; };
        float sum = 0;
        for (int64_t i = 0; i < lines.length; ++i) sum += part(dy[at(i)], y[at(i)]);
        for (int64_t i = 0; i < lines.length; ++i) dx[at(i)] = f(dy[at(i)], y[at(i)], sum);
      });
    };
  });
}

// Along the first dimension where the lines are not.
Tiling cut_lines(const KernelCall& call) {
  return call.op.axis("axis") == 0 ? Tiling{}
                                   : by_rows(call, call.arity() == 1 ? std::vector{0} : std::vector{0, 1}, {0});
}

}  // namespace

void register_softmax_cpu(KernelTable& table) {
  table.add("softmax", {softmax, contiguous_only, {}, cut_lines});
  table.add("log_softmax", {log_softmax, contiguous_only, {}, cut_lines});
  table.add("softmax_backward", {[](const KernelCall& call) {
                                   return backward(
                                       call, [](float dy, float y) { return dy * y; },
                                       [](float dy, float y, float sum) { return y * (dy - sum); });
                                 },
                                 contiguous_only,
                                 {},
                                 cut_lines});
  table.add("log_softmax_backward", {[](const KernelCall& call) {
                                       return backward(
                                           call, [](float dy, float) { return dy; },
                                           [](float dy, float y, float sum) { return dy - fast_exp(y) * sum; });
                                     },
                                     contiguous_only,
                                     {},
                                     cut_lines});
}

}  // namespace plimsoll::kernels
