// Pools over up to three spatial dimensions, a plane to a thread. All four kinds are the same loops over windows; where
// the windows lie is worked out when the kernel is prepared. In blocked tensors a plane has kChannelBlock channels
// beside each other, in lanes, or all channels of a sample; these are pooled in f16 and bf16 in place.
#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "plimsoll/base/bytes.h"
#include "plimsoll/kernels/cpu/support/low_precision_copy.h"
#include "plimsoll/kernels/cpu/support/pair_pool.h"
#include "plimsoll/kernels/cpu/support/parallel.h"
#include "plimsoll/kernels/cpu/support/row_pool.h"
#include "plimsoll/kernels/kernel.h"
#include "plimsoll/kernels/tiling.h"
#include "plimsoll/program/window.h"

namespace plimsoll::kernels {
namespace {

// A gradient so large is out of the caches again before it is read: then it need not be read to be written, either.
constexpr int64_t kPastCaches = int64_t{1} << 24;

using simd::Hit;
using simd::Reach;

struct Axis {
  int64_t size = 1;    // of x
  int64_t kernel = 1;  // places in a window: how taps are numbered
  int64_t step = 1;
  std::vector<Reach> windows = {{0, 0, 1, 1}};
  std::vector<Hit> hits = {};  // of each place of x, one after the other
  std::vector<int64_t> first_hit = {};

  // Which windows see which places.
  void find_hits() {
    std::vector<std::vector<Hit>> of_places(static_cast<size_t>(size));
    for (size_t i = 0; i < windows.size(); ++i) {
      for (int64_t k = windows[i].first; k < windows[i].end; ++k) {
        of_places[static_cast<size_t>(windows[i].start + k * step)].push_back({static_cast<int64_t>(i), k});
      }
    }
    first_hit = {0};
    for (const std::vector<Hit>& here : of_places) {
      hits.insert(hits.end(), here.begin(), here.end());
      first_hit.push_back(static_cast<int64_t>(hits.size()));
    }
  }

  // Windows of two places, side by side from the first on, all of them whole.
  bool is_in_pairs() const {
    if (kernel != 2 || step != 1 || static_cast<int64_t>(windows.size()) != size / 2) return false;
    for (size_t i = 0; i < windows.size(); ++i) {
      const Reach& reach = windows[i];
      if (reach.start != 2 * static_cast<int64_t>(i) || reach.first != 0 || reach.end != 2) return false;
    }
    return true;
  }

  // One window, which sees all places.
  bool is_whole() const {
    return windows.size() == 1 && step == 1 && windows[0].start + windows[0].first == 0 &&
           windows[0].end - windows[0].first == size;
  }

  // No place is in two windows.
  bool is_apart() const {
    const auto sees_two = [](int64_t first, int64_t end) { return end - first > 1; };
    return std::adjacent_find(first_hit.begin(), first_hit.end(), sees_two) == first_hit.end();
  }
};

// The last three dimensions of x; missing ones are 1.
struct Planes {
  int64_t count = 0;
  int64_t lanes = 1;
  int64_t groups = 1;  // of lanes, that a plane has beside each other
  int64_t width = 1;   // elements from one place to the next
  std::array<Axis, 3> axes;
  bool numbers_plane = false;      // taps are numbered by their place in x, not in the window
  bool apart = true;               // no place of x is in two windows
  bool in_pairs = false;           // 2x2 windows side by side in planes in row-major order
  bool whole = false;              // one window, which sees all of a plane in row-major order
  WindowRow row = {};              // where taps are numbered by their place in the window
  std::vector<int64_t> taps = {};  // likewise, in elements of x from where the window starts
  DType dtype = DType::f32;
  int threads = 1;

  // With lanes. Points into this one.
  simd::PoolPlane in_lanes() const {
    simd::PoolPlane plane{{}, numbers_plane, width, groups, y_size() * lanes, apart, x_bytes() >= kPastCaches};
    for (size_t i = 0; i < axes.size(); ++i) {
      const Axis& axis = axes[i];
      plane.axes[i] = {axis.size,
                       axis.kernel,
                       axis.step,
                       axis.windows.data(),
                       static_cast<int64_t>(axis.windows.size()),
                       axis.hits.data(),
                       axis.first_hit.data()};
    }
    return plane;
  }
  const simd::ElementLoops& loops() const { return element_loops(dtype); }
  PairPlane pairs() const { return {axes[1].size, axes[2].size}; }

  int64_t x_bytes() const { return count * groups * lanes * x_size() * element_bytes(dtype); }
  int64_t x_size() const { return axes[0].size * axes[1].size * axes[2].size; }
  int64_t y_size() const {
    return static_cast<int64_t>(axes[0].windows.size() * axes[1].windows.size() * axes[2].windows.size());
  }

  // Where a plane begins among elements that lie as x and y do; of `size` places.
  int64_t begin(int64_t plane, int64_t size) const {
    const int64_t planes_beside = width / (groups * lanes);
    return plane / planes_beside * size * width + plane % planes_beside * groups * lanes;
  }
  std::byte* x_at(std::byte* x, int64_t plane) const { return x + begin(plane, x_size()) * element_bytes(dtype); }
  std::byte* y_at(std::byte* y, int64_t plane) const { return y + begin(plane, y_size()) * element_bytes(dtype); }
  // Room for a row of x in f32, for each thread; none where that is what x is.
  int64_t workspace_bytes() const { return dtype == DType::f32 ? 0 : threads * row_bytes(); }
  float* workspace(std::byte* scratch, int part) const {
    return reinterpret_cast<float*>(scratch + part * row_bytes());
  }
  int64_t row_bytes() const { return align_up(axes[2].size * groups * lanes * 4, kAlignment); }
  void number_taps() {
    const auto& [depth, height, across] = axes;
    row = WindowRow(across.windows, across.kernel, across.step);
    for (int64_t i = 0; i < depth.kernel; ++i) {
      for (int64_t j = 0; j < height.kernel; ++j) {
        for (int64_t k = 0; k < across.kernel; ++k) {
          taps.push_back((i * depth.step * height.size + j * height.step) * across.size + k * across.step);
        }
      }
    }
  }
  // Where a window starts, which may be before x.
  int64_t start_of(const Reach& a, const Reach& b, const Reach& c) const {
    return (a.start * axes[1].size + b.start) * axes[2].size + c.start;
  }

  // Among indices, which are in blocks.
  int64_t index(int64_t plane) const { return plane * groups * y_size() * lanes; }
};

Axis sliding_axis(const program::Window& window, int axis, int64_t size, int64_t windows, bool count_padding) {
  const int64_t kernel = window.kernel[axis].constant();
  const int64_t step = window.dilation[axis].constant();
  const int64_t begin = window.begin[axis].constant();
  const int64_t padded = size + window.end[axis].constant();
  Axis result{size, kernel, step, {}};
  for (int64_t i = 0; i < windows; ++i) {
    const int64_t start = i * window.stride[axis].constant() - begin;
    Reach reach{start, 0, kernel, 0};
    while (reach.first < kernel && start + reach.first * step < 0) ++reach.first;
    while (reach.end > reach.first && start + (reach.end - 1) * step >= size) --reach.end;
    for (int64_t k = 0; k < kernel; ++k) reach.divisor += start + k * step < padded ? 1 : 0;
    if (!count_padding) reach.divisor = reach.end - reach.first;
    result.windows.push_back(reach);
  }
  return result;
}

// Window i of n over m elements goes from floor(i * m / n) to ceil((i + 1) * m / n).
Axis adaptive_axis(int64_t size, int64_t windows) {
  Axis result{size, size, 1, {}};
  for (int64_t i = 0; i < windows; ++i) {
    const int64_t start = i * size / windows;
    const int64_t length = ((i + 1) * size + windows - 1) / windows - start;
    result.windows.push_back({start, 0, length, length});
  }
  return result;
}

Planes planes_of(const KernelCall& call, const TensorDesc& x_tensor, const Shape& y, bool adaptive,
                 bool count_padding) {
  const bool in_lanes = x_tensor.is_blocked();
  if (!in_lanes || !is_low_precision(x_tensor.dtype)) call.require_f32(0);
  const Shape& x = x_tensor.shape;
  Planes planes;
  planes.dtype = x_tensor.dtype;
  planes.lanes = in_lanes ? kChannelBlock : 1;
  planes.width = x_tensor.is_channels_last() ? x[1] : planes.lanes;
  if (x[0] >= call.threads) planes.groups = planes.width / planes.lanes;
  planes.count = x[0] * x[1] / (planes.groups * planes.lanes);
  planes.numbers_plane = adaptive;
  planes.threads = call.threads;
  const int rank = x.rank() - 2;
  for (int axis = 0; axis < rank; ++axis) {
    const auto place = static_cast<size_t>(axis + 3 - rank);
    if (adaptive) {
      planes.axes[place] = adaptive_axis(x[axis + 2], y[axis + 2]);
    } else {
      const program::Window window = program::window_of(call.op, program::spread_over(call.op, "kernel", rank, 0));
      planes.axes[place] = sliding_axis(window, axis, x[axis + 2], y[axis + 2], count_padding);
    }
  }
  for (Axis& axis : planes.axes) axis.find_hits();
  planes.apart = std::all_of(planes.axes.begin(), planes.axes.end(), [](const Axis& axis) { return axis.is_apart(); });
  planes.in_pairs = planes.lanes == 1 && !adaptive && planes.axes[0].size == 1 && planes.axes[0].kernel == 1 &&
                    planes.axes[1].is_in_pairs() && planes.axes[2].is_in_pairs();
  planes.whole = planes.lanes == 1 &&
                 std::all_of(planes.axes.begin(), planes.axes.end(), [](const Axis& axis) { return axis.is_whole(); });
  if (!adaptive) planes.number_taps();
  return planes;
}

// Calls f(place in x, number of the tap) for each tap of a window.
template <class F>
[[gnu::always_inline]] inline void for_each_tap(const Planes& p, const Reach& a, const Reach& b, const Reach& c, F f) {
  const auto& [depth, height, width] = p.axes;
  for (int64_t i = a.first; i < a.end; ++i) {
    const int64_t slab = (a.start + i * depth.step) * height.size;
    for (int64_t j = b.first; j < b.end; ++j) {
      const int64_t row = (slab + b.start + j * height.step) * width.size;
      const int64_t number = (i * height.kernel + j) * width.kernel;
      for (int64_t k = c.first; k < c.end; ++k) {
        const int64_t at = row + c.start + k * width.step;
        f(at, p.numbers_plane ? at : number + k);
      }
    }
  }
}

// Calls f(place in y, reaches along the three dimensions) for each window of a plane.
template <class F>
[[gnu::always_inline]] inline void for_each_window(const Planes& p, F f) {
  int64_t place = 0;
  for (const Reach& a : p.axes[0].windows) {
    for (const Reach& b : p.axes[1].windows) {
      for (const Reach& c : p.axes[2].windows) f(place++, a, b, c);
    }
  }
}

// Calls f(plane, part), in parallel.
template <class F>
void for_each_plane(const Planes& p, const F& f) {
  parallel(p.threads, p.count, kGrain / (p.x_size() * p.groups * p.lanes + 1) + 1,
           [&](int part, int64_t begin, int64_t end) {
             for (int64_t plane = begin; plane < end; ++plane) f(plane, part);
           });
}

// The largest of each window, of rows of windows that are evenly spaced.
template <class Index>
void maximum_of_rows(const Planes& p, const float* x, float* y, Index* indices) {
  const auto& [depth, height, width] = p.axes;
  for (const Reach& a : depth.windows) {
    for (const Reach& b : height.windows) {
      for (int64_t first = 0; first < p.row.count; first += WindowChunk::kMost) {
        WindowChunk chunk(p.row, first);
        for (int64_t i = a.first; i < a.end; ++i) {
          for (int64_t j = b.first; j < b.end; ++j) {
            const int64_t line = (a.start + i * depth.step) * height.size + b.start + j * height.step;
            chunk.take_row(x + line * width.size, static_cast<int32_t>((i * height.kernel + j) * width.kernel));
          }
        }
        chunk.write(y, indices);
      }
      y += p.row.count;
      if (indices != nullptr) indices += p.row.count;
    }
  }
}

// The largest of each window; of equal ones the first, and NaN above all.
template <class Index>
void maximum_plane(const Planes& p, const float* x, float* y, Index* indices) {
  if (p.in_pairs) return maximum_of_pairs(p.pairs(), x, y, indices);
  if (!p.numbers_plane) return maximum_of_rows(p, x, y, indices);
  for_each_window(p, [&](int64_t place, const Reach& a, const Reach& b, const Reach& c) {
    float largest = -std::numeric_limits<float>::infinity();
    int64_t index = -1;
    for_each_tap(p, a, b, c, [&](int64_t at, int64_t number) {
      if (index >= 0 && !(x[at] > largest) && !std::isnan(x[at])) return;
      largest = x[at];
      index = number;
    });
    y[place] = largest;
    if (indices != nullptr) indices[place] = static_cast<Index>(std::max<int64_t>(index, 0));
  });
}

const simd::MaxPool<uint8_t>& max_pool_of(const Planes& planes, uint8_t) { return planes.loops().max_pool_u8; }
const simd::MaxPool<int32_t>& max_pool_of(const Planes& planes, int32_t) { return planes.loops().max_pool_i32; }

template <class Index>
Kernel maximum(const KernelCall& call, const Planes& planes) {
  return plain([planes, produces = call.produces(1)](const Memory& m) -> Task {
    return [=, x = m.inputs[0], y = m.outputs[0], indices = produces ? m.out<Index>(1) : nullptr] {
      for_each_plane(planes, [&](int64_t plane, int) {
        std::byte* from = planes.x_at(x, plane);
        std::byte* to = planes.y_at(y, plane);
        Index* index = indices == nullptr ? nullptr : indices + planes.index(plane);
        if (planes.lanes == 1) {
          maximum_plane(planes, reinterpret_cast<const float*>(from), reinterpret_cast<float*>(to), index);
        } else {
          max_pool_of(planes, Index{}).forward(planes.in_lanes(), from, to, index);
        }
      });
    };
  });
}

template <class Index>
void maximum_backward_plane(const Planes& p, const float* dy, const Index* indices, float* dx) {
  if (p.in_pairs) return maximum_of_pairs_backward(p.pairs(), dy, indices, dx);
  std::fill(dx, dx + p.x_size(), 0.0F);
  for_each_window(p, [&](int64_t place, const Reach& a, const Reach& b, const Reach& c) {
    const bool sees_x = a.first < a.end && b.first < b.end && c.first < c.end;
    const auto number = static_cast<size_t>(indices[place]);
    if (sees_x) dx[p.numbers_plane ? indices[place] : p.start_of(a, b, c) + p.taps[number]] += dy[place];
  });
}

template <class Index>
Kernel maximum_backward(const Planes& planes) {
  return {planes.workspace_bytes(), [planes](const Memory& m) -> Task {
            return [=, dy = m.inputs[0], indices = m.in<Index>(1), dx = m.outputs[0], scratch = m.scratch] {
              for_each_plane(planes, [&](int64_t plane, int part) {
                std::byte* from = planes.y_at(dy, plane);
                std::byte* to = planes.x_at(dx, plane);
                const Index* index = indices + planes.index(plane);
                if (planes.lanes == 1) {
                  maximum_backward_plane(planes, reinterpret_cast<const float*>(from), index,
                                         reinterpret_cast<float*>(to));
                } else {
                  max_pool_of(planes, Index{})
                      .backward(planes.in_lanes(), from, index, to, planes.workspace(scratch, part));
                }
              });
            };
          }};
}

void average_plane(const Planes& p, const float* x, float* y) {
  for_each_window(p, [&](int64_t place, const Reach& a, const Reach& b, const Reach& c) {
    float sum = 0;
    for_each_tap(p, a, b, c, [&](int64_t at, int64_t) { sum += x[at]; });
    y[place] = sum / static_cast<float>(a.divisor * b.divisor * c.divisor);
  });
}

// Averages of whole planes. Each is one long sum, which waits for itself: so eight of them at a time.
void average_wholes(const Planes& p, const float* x, float* y) {
  constexpr int64_t kTogether = 8;
  const int64_t size = p.x_size();
  parallel(p.threads, p.count, kGrain / (size + 1) + 1, [&](int, int64_t begin, int64_t end) {
    int64_t plane = begin;
    for (; plane + kTogether <= end; plane += kTogether) {
      float sums[kTogether] = {};
      for (int64_t i = 0; i < size; ++i) {
        for (int64_t k = 0; k < kTogether; ++k) sums[k] += x[(plane + k) * size + i];
      }
      const int64_t divisor =
          p.axes[0].windows[0].divisor * p.axes[1].windows[0].divisor * p.axes[2].windows[0].divisor;
      for (int64_t k = 0; k < kTogether; ++k) y[plane + k] = sums[k] / static_cast<float>(divisor);
    }
    for (; plane < end; ++plane) average_plane(p, x + plane * size, y + plane);
  });
}

Kernel average(const Planes& planes) {
  return plain([planes](const Memory& m) -> Task {
    return [=, x = m.inputs[0], y = m.outputs[0]] {
      if (planes.whole) return average_wholes(planes, reinterpret_cast<const float*>(x), reinterpret_cast<float*>(y));
      for_each_plane(planes, [&](int64_t plane, int) {
        std::byte* from = planes.x_at(x, plane);
        std::byte* to = planes.y_at(y, plane);
        if (planes.lanes == 1) {
          average_plane(planes, reinterpret_cast<const float*>(from), reinterpret_cast<float*>(to));
        } else {
          planes.loops().average_pool(planes.in_lanes(), from, to);
        }
      });
    };
  });
}

void average_backward_plane(const Planes& p, const float* dy, float* dx) {
  std::fill(dx, dx + p.x_size(), 0.0F);
  for_each_window(p, [&](int64_t place, const Reach& a, const Reach& b, const Reach& c) {
    const float share = dy[place] / static_cast<float>(a.divisor * b.divisor * c.divisor);
    for_each_tap(p, a, b, c, [&](int64_t at, int64_t) { dx[at] += share; });
  });
}

Kernel average_backward(const Planes& planes) {
  return {planes.workspace_bytes(), [planes](const Memory& m) -> Task {
            return [=, dy = m.inputs[0], dx = m.outputs[0], scratch = m.scratch] {
              for_each_plane(planes, [&](int64_t plane, int part) {
                std::byte* from = planes.y_at(dy, plane);
                std::byte* to = planes.x_at(dx, plane);
                if (planes.lanes == 1) {
                  average_backward_plane(planes, reinterpret_cast<const float*>(from), reinterpret_cast<float*>(to));
                } else {
                  planes.loops().average_pool_backward(planes.in_lanes(), from, to, planes.workspace(scratch, part));
                }
              });
            };
          }};
}

// In lanes all dtypes are widened where they lie.
bool is_in_lanes(const KernelCall& call) { return call.in(0).is_blocked(); }

const Blocking kForward{.rule = Blocking::Rule::together, .inputs = {0}, .outputs = {0, 1}};
const Blocking kBackward{.rule = Blocking::Rule::together, .inputs = {0, 1}, .outputs = {0}};
const Blocking kAverage{.rule = Blocking::Rule::together, .inputs = {0}, .outputs = {0}};

void add_maximum(KernelTable& table, const std::string& op, bool adaptive) {
  table.add(op, {[=](const KernelCall& call) {
                   const Planes planes = planes_of(call, call.in(0), call.out().shape, adaptive, false);
                   const bool narrow = !adaptive && call.produces(1) && call.out(1).dtype == DType::u8;
                   return narrow ? maximum<uint8_t>(call, planes) : maximum<int32_t>(call, planes);
                 },
                 contiguous_only, kForward, by_planes, is_in_lanes});
  table.add(op + "_backward", {[=](const KernelCall& call) {
                                 const Planes planes = planes_of(call, call.out(), call.in(0).shape, adaptive, false);
                                 return call.in(1).dtype == DType::u8 ? maximum_backward<uint8_t>(planes)
                                                                      : maximum_backward<int32_t>(planes);
                               },
                               contiguous_only, kBackward, by_planes, is_in_lanes});
}

void add_average(KernelTable& table, const std::string& op, bool adaptive) {
  const auto counts_padding = [=](const KernelCall& call) { return !adaptive && call.op.flag("count_include_pad"); };
  table.add(op, {[=](const KernelCall& call) {
                   return average(planes_of(call, call.in(0), call.out().shape, adaptive, counts_padding(call)));
                 },
                 contiguous_only, kAverage, by_planes, is_in_lanes});
  table.add(op + "_backward",
            {[=](const KernelCall& call) {
               return average_backward(planes_of(call, call.out(), call.in(0).shape, adaptive, counts_padding(call)));
             },
             contiguous_only, kAverage, by_planes, is_in_lanes});
}

}  // namespace

void register_pool_cpu(KernelTable& table) {
  add_maximum(table, "max_pool", false);
  add_maximum(table, "adaptive_max_pool", true);
  add_average(table, "avg_pool", false);
  add_average(table, "adaptive_avg_pool", true);
}

}  // namespace plimsoll::kernels
