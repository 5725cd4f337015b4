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

// What is worth bytes.
struct QuantizeOptions {
  int64_t least_bytes = 4096;  // of a parameter: smaller ones are not worth scales and rounding
  // In a sum: with fewer, as in convolutions of single channels, scaling the sums takes longer than they do, and
  // rounding does not even out.
  int64_t least_products = 32;
};

// Turns conv, linear, products with a transposed parameter, and embedding into ops of ops/quantize.h where the weights
// are an f32 parameter that nothing else reads. Parameters keep their names and places; what they multiply is brought
// to bytes once for all that read it. All else stays f32, also convolutions whose sums have more products than
// kMostProducts. For inference: it changes the numbers, and what it makes has no gradients.
QuantizedProgram quantize_weights(Program program, const QuantizeOptions& options = {});

}  // namespace plimsoll::program
