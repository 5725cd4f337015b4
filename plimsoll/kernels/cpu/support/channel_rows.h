// Images in bf16 with their channels last (see Tensor) as rows of channels, one for each place of each sample, and sums
// of them by channels. Reading a few channels at a time, as one does where each channel is a plane, would read every
// cache line again for each of them.
#pragma once

#include <algorithm>

#include "plimsoll/base/bytes.h"
#include "plimsoll/kernels/cpu/simd/simd.h"
#include "plimsoll/kernels/cpu/support/parallel.h"
#include "plimsoll/kernels/kernel.h"

namespace plimsoll::kernels {

struct ChannelRows {
  int64_t count, channels;
  int threads;

  ChannelRows(const TensorDesc& image, int thread_count)
      : count(image.elements() / image.shape[1]), channels(image.shape[1]), threads(thread_count) {}

  // Scratch for sums of `kinds` things, and the sums themselves once they are made, [kinds, channels].
  int64_t scratch_bytes(int kinds) const { return threads * part_bytes(kinds); }
  static const double* sums(const std::byte* scratch) { return reinterpret_cast<const double*>(scratch); }

  // Calls add(sums, row, rows) for a few rows at a time, which adds them to sums f32[kinds, channels]. These are added
  // in f64, so that long sums stay exact: for each thread its own rows, and then of the threads.
  template <class F>
  void add_up(std::byte* scratch, int kinds, const F& add) const {
    constexpr int64_t kRun = 256;
    const int64_t numbers = kinds * channels;
    for (int part = 0; part < parts(); ++part) std::fill_n(sums_of(scratch, kinds, part), numbers, 0.0);
    for_each_part([&](int part, int64_t begin, int64_t end) {
      double* sums = sums_of(scratch, kinds, part);
      auto* run = reinterpret_cast<float*>(sums + numbers);
      for (int64_t row = begin; row < end; row += kRun) {
        std::fill_n(run, numbers, 0.0F);
        add(run, row, std::min(kRun, end - row));
        for (int64_t i = 0; i < numbers; ++i) sums[i] += static_cast<double>(run[i]);
      }
    });
    double* total = sums_of(scratch, kinds, 0);
    for (int part = 1; part < parts(); ++part) {
      const double* sums = sums_of(scratch, kinds, part);
      for (int64_t i = 0; i < numbers; ++i) total[i] += sums[i];
    }
  }

  // Calls f(part, begin, end) for parts of the rows, in parallel.
  template <class F>
  void for_each_part(const F& f) const {
    parallel(threads, count, grain(), f);
  }

 private:
  int64_t grain() const { return kGrain / channels + 1; }
  int parts() const { return parts_of(threads, count, grain()); }
  int64_t part_bytes(int kinds) const { return align_up(kinds * channels * 12, kAlignment); }
  double* sums_of(std::byte* scratch, int kinds, int part) const {
    return reinterpret_cast<double*>(scratch + part * part_bytes(kinds));
  }
};

}  // namespace plimsoll::kernels
