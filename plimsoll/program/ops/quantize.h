// Products of bytes, for inference. Weights are i8 with a scale for each output (row of the table), known before the
// run; what goes through them is brought to i8 or u8 as it comes, with a scale for each sample or row, so that a result
// does not depend on what else is in the batch. Products are summed in whole numbers, exactly; the result is
//
//   y = sum(x * w) * (x_scale * w_scale) + bias    in f32.
//
// No op of the family has a gradient. The pass quantize_weights makes them of a model's inference.
#pragma once

#include "plimsoll/program/builder.h"
#include "plimsoll/program/ops/conv.h"

namespace plimsoll::program {

// As quantization.h says.
struct Quantized {
  Value bytes;
  Value scale;  // f32
};

// x[batch, ..] of f32 as i8, or u8 where it is known not to be negative: one scale for each sample, [batch].
Quantized quantize(Builder& b, Value x, DType dtype = DType::i8);
// x[.., columns]: one scale for each row, [..].
Quantized quantize_rows(Builder& b, Value x, DType dtype = DType::i8);

// As conv, linear and embedding. x is as quantize makes it for conv, quantize_rows for linear; w is i8, with a scale
// for each place in its first dimension; the bias is f32.
Value conv_i8(Builder& b, const Quantized& x, const Quantized& w, Value bias = {}, const ConvOptions& options = {});
Value linear_i8(Builder& b, const Quantized& x, const Quantized& w, Value bias = {});
Value embedding_i8(Builder& b, const Quantized& w, Value index);

}  // namespace plimsoll::program
