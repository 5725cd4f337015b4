// [batch, channels, ..] as planes, one for each channel of a sample, or in a blocked tensor one for each group of
// kChannelBlock channels, which stand beside each other in `lanes`.
#pragma once

#include <algorithm>
#include <array>

#include "plimsoll/base/bytes.h"
#include "plimsoll/kernels/cpu/support/low_precision.h"
#include "plimsoll/kernels/cpu/support/low_precision_copy.h"
#include "plimsoll/kernels/cpu/support/parallel.h"
#include "plimsoll/kernels/cpu/support/vectorised.h"
#include "plimsoll/kernels/kernel.h"
#include "plimsoll/kernels/tiling.h"

namespace plimsoll::kernels {

using LaneSums = std::array<double, kChannelBlock>;

// Sums of f(i) over [0, count) where the channels are in lanes, f(i) an element: first over short runs in f32, as
// vectors, then those in f64, so that long sums stay exact.
constexpr int64_t kRun = 256;

template <class F>
[[gnu::always_inline]] inline void add_lanes(LaneSums& sums, int64_t positions, F f) {
  for (int64_t first = 0; first < positions; first += kRun) {
    const int64_t end = first + kRun < positions ? first + kRun : positions;
    float run[kChannelBlock] = {};
    for (int64_t i = first; i < end; ++i) {
#pragma omp simd
      for (int64_t lane = 0; lane < kChannelBlock; ++lane) run[lane] += f(i * kChannelBlock + lane, lane);
    }
    for (int64_t lane = 0; lane < kChannelBlock; ++lane)
      sums[static_cast<size_t>(lane)] += static_cast<double>(run[lane]);
  }
}

// The same for one channel, whose elements lie together.
template <class F>
[[gnu::always_inline]] inline void add_line(LaneSums& sums, int64_t positions, F f) {
  for (int64_t first = 0; first < positions; first += kRun * kChannelBlock) {
    const int64_t end = first + kRun * kChannelBlock < positions ? first + kRun * kChannelBlock : positions;
    float run = 0;
#pragma omp simd reduction(+ : run)
    for (int64_t i = first; i < end; ++i) run += f(i, 0);
    sums[0] += static_cast<double>(run);
  }
}

template <class = void>
void add_plane_in_lanes(LaneSums& sums, const float* x, int64_t positions) {
  vectorised([=, &sums] { add_lanes(sums, positions, [x](int64_t i, int64_t) { return x[i]; }); });
}

template <class = void>
void add_plane_in_line(LaneSums& sums, const float* x, int64_t positions) {
  vectorised([=, &sums] { add_line(sums, positions, [x](int64_t i, int64_t) { return x[i]; }); });
}

// The same for one channel in bf16, in several vectors at once, so that none waits for the sum before.
template <class = void>
void add_bf16_line(LaneSums& sums, const uint16_t* x, int64_t positions) {
  constexpr int64_t kTogether = 32;
  vectorised([=, &sums] {
    float run[kTogether] = {};
    int64_t i = 0;
    for (; i + kTogether <= positions; i += kTogether) {
#pragma omp simd
      for (int64_t k = 0; k < kTogether; ++k) run[k] += from_bf16(x[i + k]);
    }
    for (; i < positions; ++i) run[0] += from_bf16(x[i]);
    for (const float part : run) sums[0] += static_cast<double>(part);
  });
}

struct Channels {
  int64_t batch, channels;
  int64_t positions;  // in a plane
  int64_t lanes;
  bool channels_last;
  TensorDesc image;

  explicit Channels(const TensorDesc& tensor)
      : batch(tensor.shape[0]),
        channels(tensor.shape[1]),
        positions(Shape(tensor.shape.dims().subspan(2)).elements()),
        lanes(tensor.is_blocked() ? kChannelBlock : 1),
        channels_last(tensor.is_channels_last()),
        image(tensor) {}

  int64_t groups() const { return channels / lanes; }
  int64_t plane_size() const { return positions * lanes; }
  int64_t at(int64_t n, int64_t group) const { return (n * groups() + group) * plane_size(); }

  // Calls f(part, group), in parallel; see parallel().
  template <class F>
  void for_each_group(int threads, const F& f) const {
    parallel(threads, groups(), kGrain / (batch * plane_size() + 1) + 1, [&](int part, int64_t begin, int64_t end) {
      for (int64_t group = begin; group < end; ++group) f(part, group);
    });
  }

  // Calls f(plane, its first channel), in parallel.
  template <class F>
  void for_each_plane(int threads, const F& f) const {
    parallel(threads, batch * groups(), kGrain / (plane_size() + 1) + 1, [&](int, int64_t begin, int64_t end) {
      for (int64_t plane = begin; plane < end; ++plane) f(plane, plane % groups() * lanes);
    });
  }

  // A plane as f32: where it lies, or in `room`.
  const float* read(const WideInput& x, int64_t n, int64_t group, float* workspace) const {
    if (!channels_last) return x.line(at(n, group), plane_size(), workspace);
    upcast_planes(image, x.data, n * channels + group * lanes, lanes, workspace, 1);
    return workspace;
  }
  // Calls f(where the plane is to be made).
  template <class F>
  void write(const WideOutput& y, int64_t n, int64_t group, float* workspace, const F& f) const {
    float* plane = y.line(at(n, group), workspace);
    f(plane);
    if (channels_last) {
      downcast_planes(image, plane, y.data, n * channels + group * lanes, lanes, 1);
    } else {
      y.keep(at(n, group), plane_size(), plane);
    }
  }

  // Scratch that has place for `planes` planes of f32 for each thread, when some tensors are f16 or bf16.
  int64_t workspace_bytes(const KernelCall& call, int planes) const {
    return has_low_precision(call) ? call.threads * planes * align_up(plane_size() * 4, kAlignment) : 0;
  }
  float* workspace(std::byte* scratch, int planes, int part, int plane) const {
    if (scratch == nullptr) return nullptr;  // all are f32
    return reinterpret_cast<float*>(scratch + (part * planes + plane) * align_up(plane_size() * 4, kAlignment));
  }

  void add_plane(LaneSums& sums, const float* x) const { add_positions(sums, x, positions); }
  // A contiguous plane, read a run at a time, so that what is upcast stays in the first cache.
  void add_plane(LaneSums& sums, const WideInput& x, int64_t n, int64_t group, float* workspace) const {
    if (channels_last) return add_plane(sums, read(x, n, group, workspace));
    for (int64_t first = 0; first < plane_size(); first += kRun * kChannelBlock) {
      const int64_t count = std::min(kRun * kChannelBlock, plane_size() - first);
      if (lanes == 1 && x.dtype == DType::bf16) {
        add_bf16_line<>(sums, reinterpret_cast<const uint16_t*>(x.data) + at(n, group) + first, count);
        continue;
      }
      add_positions(sums, x.line(at(n, group) + first, count, workspace), count / lanes);
    }
  }

 private:
  void add_positions(LaneSums& sums, const float* x, int64_t count) const {
    (lanes == 1 ? add_plane_in_line<> : add_plane_in_lanes<>)(sums, x, count);
  }
};

}  // namespace plimsoll::kernels
