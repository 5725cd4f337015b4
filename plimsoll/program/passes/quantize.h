// Inference in bytes: large weights become i8, and products with them are summed in whole numbers.
#pragma once

#include "plimsoll/program/program.h"

namespace plimsoll::program {

// A parameter that is i8 now, and its scales: one for each place in its first dimension, the last of the program's
// state. quantize_row (quantization.h) makes both from the f32 ones.
struct QuantizedParameter {
  Value weights;
  Value scales;
};

struct QuantizedProgram {
  Program program;
  std::vector<QuantizedParameter> parameters;
};

inline constexpr int64_t kLeastQuantized = 4096;  // bytes; smaller ones are not worth scales and rounding

// Turns conv, linear, products with a transposed parameter, and embedding into ops of ops/quantize.h where the weights
// are an f32 parameter of at least so many bytes that nothing else reads. Parameters keep their names and places; what
// they multiply is brought to bytes once for all that read it. All else stays f32, also convolutions whose sums have
// more products than kMostProducts. For inference: it changes the numbers, and what it makes has no gradients.
QuantizedProgram quantize_weights(Program program, int64_t least_bytes = kLeastQuantized);

}  // namespace plimsoll::program
