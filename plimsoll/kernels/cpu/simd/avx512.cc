#define PLIMSOLL_SIMD avx512
#include "plimsoll/kernels/cpu/simd/body.h"
