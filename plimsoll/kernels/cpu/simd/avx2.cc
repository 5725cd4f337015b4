#define PLIMSOLL_SIMD avx2
#include "plimsoll/kernels/cpu/simd/body.h"
