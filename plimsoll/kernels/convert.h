// f16 and bf16 in memory of the host to f32 and back, rounded to nearest: for values that go in and out of a device.
#pragma once

#include <cstdint>
#include <span>

#include "plimsoll/base/dtype.h"

namespace plimsoll::kernels {

// As many as `from` has. `dtype`, f16 or bf16, is that of the 16 bits.
void upcast(DType dtype, std::span<const uint16_t> from, float* to);
void downcast(DType dtype, std::span<const float> from, uint16_t* to);

}  // namespace plimsoll::kernels
