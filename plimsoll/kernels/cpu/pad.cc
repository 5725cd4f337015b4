// Padding and tiling: every element of the result shows one of the operand, or none, dimension by dimension.
#include <algorithm>
#include <cmath>

#include "plimsoll/kernels/cpu/support/dispatch.h"
#include "plimsoll/kernels/cpu/support/parallel.h"
#include "plimsoll/kernels/tiling.h"

namespace plimsoll::kernels {
namespace {

constexpr int64_t kOutside = -1;

// For each dimension of the larger shape and each place in it, where that lies in the smaller, in elements of its
// memory; or outside. Larger ones are walked in row-major order, as lines along the last dimension.
class Source {
 public:
  // from(axis, i): the place in a dimension of the smaller tensor that place i of the larger shows.
  template <class F>
  Source(const Shape& larger, const TensorDesc& smaller, const F& from) : shape_(larger) {
    for (int axis = 0; axis < larger.rank(); ++axis) {
      std::vector<int64_t>& along = steps_.emplace_back();
      for (int64_t i = 0; i < larger[axis]; ++i) {
        const int64_t place = from(axis, i);
        along.push_back(place == kOutside ? kOutside : place * smaller.stride(axis));
      }
    }
    if (larger.rank() == 0) steps_.push_back({0});
  }

  const std::vector<int64_t>& along_line() const { return steps_.back(); }
  int64_t length() const { return static_cast<int64_t>(along_line().size()); }
  int64_t lines() const { return shape_.elements() / std::max<int64_t>(length(), 1); }

  // Where the line begins in the smaller one, or outside.
  int64_t line_start(int64_t line) const {
    int64_t start = 0;
    for (int axis = shape_.rank() - 2; axis >= 0; --axis) {
      const int64_t step = steps_[static_cast<size_t>(axis)][static_cast<size_t>(line % shape_[axis])];
      if (step == kOutside) return kOutside;
      start += step;
      line /= shape_[axis];
    }
    return start;
  }

 private:
  Shape shape_;
  std::vector<std::vector<int64_t>> steps_;  // for each dimension
};

// Whether and where padding shows x: beyond the edges nothing, the mirror image, or the edge.
int64_t padded(const std::string& mode, int64_t place, int64_t size) {
  if (place >= 0 && place < size) return place;
  if (mode == "constant") return kOutside;
  if (mode == "reflect") return std::clamp<int64_t>(place < 0 ? -place : 2 * (size - 1) - place, 0, size - 1);
  return std::clamp<int64_t>(place, 0, size - 1);
}

Source padding_of(const KernelCall& call, const Shape& larger, const TensorDesc& smaller) {
  const program::Dims& before = call.op.dims("before");
  const std::string& mode = call.op.word("mode");
  return {larger, smaller,
          [&](int axis, int64_t i) { return padded(mode, i - before[axis].constant(), smaller.shape[axis]); }};
}

template <class T>
void show_line(const Source& source, int64_t line, const T* x, T* y, T outside) {
  const int64_t start = source.line_start(line);
  for (const int64_t step : source.along_line()) {
    *y++ = start == kOutside || step == kOutside ? outside : x[start + step];
  }
}

template <class T>
Kernel show(const KernelCall& call, const Source& source, T outside) {
  return plain([=, threads = call.threads](const Memory& m) -> Task {
    return [=, x = m.in<T>(0), y = m.out<T>()] {
      const int64_t length = source.length();
      parallel(threads, source.lines(), kGrain / (length + 1) + 1, [&](int, int64_t begin, int64_t end) {
        for (int64_t line = begin; line < end; ++line) show_line(source, line, x, y + line * length, outside);
      });
    };
  });
}

Kernel pad(const KernelCall& call) {
  const Source source = padding_of(call, call.out().shape, call.in(0));
  const double value = call.op.real("value");
  if (value == 0) return for_size(call.out().dtype, [&](auto zero) { return show(call, source, zero); });
  return for_number(call, call.out().dtype, [&](auto zero) {
    using T = decltype(zero);
    return show<T>(call, source, static_cast<T>(std::is_integral_v<T> ? std::floor(value) : value));
  });
}

// Adds up what was shown several times, on one thread.
Kernel pad_backward(const KernelCall& call) {
  const Source source = padding_of(call, call.in(0).shape, call.out());
  return for_number(call, call.out().dtype, [&](auto zero) {
    using T = decltype(zero);
    return plain([source, elements = call.out().elements()](const Memory& m) -> Task {
      return [=, dy = m.in<T>(0), dx = m.out<T>()] {
        std::fill(dx, dx + elements, T{});
        for (int64_t line = 0; line < source.lines(); ++line) {
          const int64_t start = source.line_start(line);
          const T* from = dy + line * source.length();
          for (const int64_t step : source.along_line()) {
            if (start != kOutside && step != kOutside) dx[start + step] += *from;
            ++from;
          }
        }
      };
    });
  });
}

Kernel tile(const KernelCall& call) {
  const Source source(call.out().shape, call.in(0), [&](int axis, int64_t i) { return i % call.in(0).shape[axis]; });
  return for_size(call.out().dtype, [&](auto zero) { return show(call, source, zero); });
}

}  // namespace

void register_pad_cpu(KernelTable& table) {
  table.add("pad", {pad, any_layout, {}, nullptr, [](const KernelCall& call) { return call.op.real("value") == 0; }});
  table.add("pad_backward", {pad_backward});
  table.add("tile", {tile, any_layout, {}, nullptr, any_dtype});
}

}  // namespace plimsoll::kernels
