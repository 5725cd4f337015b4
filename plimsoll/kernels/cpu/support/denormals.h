// Numbers below the smallest normal one, which many machines compute with a hundred times as slowly.
#pragma once

#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

namespace plimsoll::kernels {

// While this lives they count as zero on this thread. The arithmetic must be in a function that is called, or a
// compiler might move it out.
class FlushDenormals {
#if defined(__x86_64__)
 public:
  FlushDenormals() : before_(_mm_getcsr()) { _mm_setcsr(before_ | kResults | kOperands); }
  ~FlushDenormals() { _mm_setcsr(before_); }
  FlushDenormals(const FlushDenormals&) = delete;
  FlushDenormals& operator=(const FlushDenormals&) = delete;

 private:
  static constexpr unsigned kResults = 1U << 15;
  static constexpr unsigned kOperands = 1U << 6;
  unsigned before_;
#endif
};

}  // namespace plimsoll::kernels
