// Resampling of planes: each channel of each sample by itself, so threads share no results.
#include <algorithm>
#include <cmath>

#include "plimsoll/kernels/cpu/support/dispatch.h"
#include "plimsoll/kernels/cpu/support/parallel.h"
#include "plimsoll/kernels/tiling.h"

namespace plimsoll::kernels {
namespace {

// Where an element of one dimension comes from: (1 - part) of the element at `first` and part of that at `second`, in
// elements of the plane.
struct Between {
  int64_t first = 0;
  int64_t second = 0;
  double part = 0;
};

int64_t nearest(const program::OpCall& op_call, int64_t i, int64_t from, int64_t to) {
  const double scale = op_call.real("scale");
  const int64_t at = scale > 0 ? static_cast<int64_t>(std::floor(static_cast<double>(i) / scale)) : i * from / to;
  return std::min(at, from - 1);
}

double linear(const program::OpCall& op_call, double i, double from, double to) {
  if (op_call.flag("align_corners")) return to > 1 ? i * (from - 1) / (to - 1) : 0;
  const double scale = op_call.real("scale");
  return std::max((i + 0.5) * (scale > 0 ? 1 / scale : from / to) - 0.5, 0.0);
}

Between between(const program::OpCall& op_call, int64_t i, int64_t from, int64_t to) {
  if (op_call.word("mode") == "nearest") {
    const int64_t at = nearest(op_call, i, from, to);
    return {at, at, 0};
  }
  const double at = linear(op_call, static_cast<double>(i), static_cast<double>(from), static_cast<double>(to));
  const int64_t first = std::min(static_cast<int64_t>(at), from - 1);
  return {first, std::min(first + 1, from - 1), at - static_cast<double>(first)};
}

// How the planes of y are made from those of x.
struct Resampling {
  int64_t planes = 1;
  int64_t x_size = 1;  // of a plane
  int64_t y_size = 1;
  int threads;
  std::vector<std::vector<Between>> along;  // for each spatial dimension, the last first

  Resampling(const KernelCall& call, const Shape& x, const Shape& y) : planes(x[0] * x[1]), threads(call.threads) {
    for (int axis = x.rank() - 1; axis >= 2; --axis) {
      std::vector<Between>& sources = along.emplace_back();
      for (int64_t i = 0; i < y[axis]; ++i) {
        Between source = between(call.op, i, x[axis], y[axis]);
        source.first *= x_size;
        source.second *= x_size;
        sources.push_back(source);
      }
      x_size *= x[axis];
      y_size *= y[axis];
    }
  }

  // Calls visit(place in the plane of x, weight) for what element `i` of the plane of y is made of.
  template <class F>
  void for_each_source(int64_t i, const F& visit) const {
    Between sources[3];
    for (size_t d = 0; d < along.size(); ++d) {
      const auto size = static_cast<int64_t>(along[d].size());
      sources[d] = along[d][static_cast<size_t>(i % size)];
      i /= size;
    }
    for (unsigned corner = 0; corner < 1U << along.size(); ++corner) {
      int64_t at = 0;
      double weight = 1;
      for (size_t d = 0; d < along.size(); ++d) {
        const bool second = (corner >> d & 1U) != 0;
        at += second ? sources[d].second : sources[d].first;
        weight *= second ? sources[d].part : 1 - sources[d].part;
      }
      if (weight != 0) visit(at, weight);
    }
  }

  template <class F>
  void for_each_plane(const F& f) const {
    parallel(threads, planes, kGrain / (y_size + 1) + 1, [&](int, int64_t begin, int64_t end) {
      for (int64_t plane = begin; plane < end; ++plane) f(plane);
    });
  }
};

Kernel resize(const KernelCall& call) {
  const Resampling r(call, call.in(0).shape, call.out().shape);
  return for_real(call, call.in(0).dtype, [&](auto zero) {
    using T = decltype(zero);
    return plain([r](const Memory& m) -> Task {
      return [=, x = m.in<T>(0), y = m.out<T>()] {
        r.for_each_plane([&](int64_t plane) {
          for (int64_t i = 0; i < r.y_size; ++i) {
            T sum = 0;
            r.for_each_source(
                i, [&](int64_t at, double weight) { sum += x[plane * r.x_size + at] * static_cast<T>(weight); });
            y[plane * r.y_size + i] = sum;
          }
        });
      };
    });
  });
}

Kernel resize_backward(const KernelCall& call) {
  const Resampling r(call, call.out().shape, call.in(0).shape);
  return for_real(call, call.in(0).dtype, [&](auto zero) {
    using T = decltype(zero);
    return plain([r](const Memory& m) -> Task {
      return [=, dy = m.in<T>(0), dx = m.out<T>()] {
        r.for_each_plane([&](int64_t plane) {
          T* to = dx + plane * r.x_size;
          std::fill(to, to + r.x_size, T{});
          for (int64_t i = 0; i < r.y_size; ++i) {
            const T slope = dy[plane * r.y_size + i];
            r.for_each_source(i, [&](int64_t at, double weight) { to[at] += slope * static_cast<T>(weight); });
          }
        });
      };
    });
  });
}

}  // namespace

void register_resize_cpu(KernelTable& table) {
  table.add("resize", {resize, contiguous_only, {}, by_planes});
  table.add("resize_backward", {resize_backward, contiguous_only, {}, by_planes});
}

}  // namespace plimsoll::kernels
