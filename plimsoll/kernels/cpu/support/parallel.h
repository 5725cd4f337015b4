// Work in parts on several threads. How the work is cut depends only on the thread count that was asked for, so the
// same count gives the same bits.
#pragma once

#include <cstdint>
#ifndef _OPENMP
#include <thread>
#include <vector>
#endif

namespace plimsoll::kernels {

inline constexpr int64_t kGrain = 1 << 13;  // elements that are worth a thread

// The number of parts that `parallel` cuts into.
inline int parts_of(int threads, int64_t count, int64_t grain) { return count >= 2 * grain ? threads : 1; }

// Calls f(0), f(1), .. each on a thread of its own; f must not throw. Without OpenMP, which sanitizers cannot see into,
// threads are made for the occasion.
template <class F>
void on_threads(int parts, const F& f) {
#ifdef _OPENMP
#pragma omp parallel for num_threads(parts) schedule(static, 1)
  for (int part = 0; part < parts; ++part) f(part);
#else
  std::vector<std::thread> threads;
  for (int part = 1; part < parts; ++part) threads.emplace_back([&f, part] { f(part); });
  f(0);
  for (std::thread& thread : threads) thread.join();
#endif
}

// Calls f(part, begin, end) for parts that together are [0, count), each on a thread of its own.
template <class F>
void parallel(int threads, int64_t count, int64_t grain, const F& f) {
  const int parts = parts_of(threads, count, grain);
  if (parts == 1) {
    f(0, int64_t{0}, count);
    return;
  }
  on_threads(parts, [&](int part) { f(part, count * part / parts, count * (part + 1) / parts); });
}

}  // namespace plimsoll::kernels
