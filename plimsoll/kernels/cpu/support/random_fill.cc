#include "plimsoll/kernels/random_fill.h"

#include <algorithm>

#include "plimsoll/kernels/cpu/support/parallel.h"
#include "plimsoll/kernels/cpu/support/vectorised.h"

namespace plimsoll::kernels {
namespace {

// A hash of few operations that vectors have: a batch that does not fit in memory is made up anew in every step.
[[gnu::always_inline]] inline uint32_t mix(uint32_t key, uint32_t place) {
  uint32_t x = place * 0x9E3779B9U ^ key;
  x = (x ^ (x >> 16)) * 0x21F0AAADU;
  x = (x ^ (x >> 15)) * 0x735A2D97U;
  return x ^ (x >> 15);
}

void fill(float* into, uint32_t key, int64_t begin, int64_t end) {
  vectorised([=] {
#pragma omp simd
    for (int64_t i = begin; i < end; ++i) {
      into[i] = static_cast<float>(static_cast<int32_t>(mix(key, static_cast<uint32_t>(i)))) * 0x1p-31F;
    }
  });
}

void fill(int64_t* into, uint32_t key, int64_t begin, int64_t end, uint64_t range) {
  for (int64_t i = begin; i < end; ++i) {
    into[i] = static_cast<int64_t>(mix(key, static_cast<uint32_t>(i)) * range >> 32);
  }
}

// Calls f(sample, begin, end) for all elements of all samples.
template <class F>
void for_each_sample(int64_t elements, int64_t samples, int threads, const F& f) {
  if (samples == 0 || elements == 0) return;
  const int64_t each = elements / samples;
  parallel(threads, elements, kGrain, [&](int, int64_t begin, int64_t end) {
    for (int64_t at = begin; at < end;) {
      const int64_t sample = at / each;
      const int64_t stop = std::min(end, (sample + 1) * each);
      f(sample, at - sample * each, stop - sample * each);
      at = stop;
    }
  });
}

}  // namespace

void random_fill(std::span<float> into, std::span<const uint32_t> keys, int threads) {
  const auto samples = static_cast<int64_t>(keys.size());
  const auto each = static_cast<int64_t>(into.size()) / std::max<int64_t>(1, samples);
  for_each_sample(static_cast<int64_t>(into.size()), samples, threads, [&](int64_t i, int64_t begin, int64_t end) {
    fill(into.data() + i * each, keys[static_cast<size_t>(i)], begin, end);
  });
}

void random_fill(std::span<int64_t> into, std::span<const uint32_t> keys, int64_t range, int threads) {
  const auto samples = static_cast<int64_t>(keys.size());
  const auto each = static_cast<int64_t>(into.size()) / std::max<int64_t>(1, samples);
  for_each_sample(static_cast<int64_t>(into.size()), samples, threads, [&](int64_t i, int64_t begin, int64_t end) {
    fill(into.data() + i * each, keys[static_cast<size_t>(i)], begin, end, static_cast<uint64_t>(range));
  });
}

}  // namespace plimsoll::kernels
