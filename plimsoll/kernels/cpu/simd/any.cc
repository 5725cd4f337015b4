#define PLIMSOLL_SIMD any
#include "plimsoll/kernels/cpu/simd/body.h"
