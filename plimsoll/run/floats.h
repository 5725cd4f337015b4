// Values of f32, f16 or bf16 as floats, in and out of an executor.
#pragma once

#include "plimsoll/run/executor.h"

namespace plimsoll::run {

// ArgumentError for a value of another dtype, and from Executor::read.
std::vector<float> read_floats(Executor& executor, program::Value value);
// Rounded to nearest into memory of that dtype: f32, f16 or bf16, as many elements as floats.
void write_rounded(DType dtype, std::span<const float> floats, std::span<std::byte> into);
// Rounded to nearest. As many as the value has elements, else ArgumentError.
void write_floats(Executor& executor, program::Value value, std::span<const float> floats);

}  // namespace plimsoll::run
