// Element-wise ops of one operand. All keep the shape and, but for cast, the dtype; all may run in place. They differ
// in what their backward pass reads:
//   one bit an element  relu, leaky_relu, clamp, relu6, hard_sigmoid
//   the output          sigmoid, tanh, exp, sqrt, rsqrt, reciprocal, elu, softplus
//   the input           log, silu, gelu, gelu_tanh, hard_swish, abs, square, sin, cos, erf, pow
//   nothing             neg, affine, identity, cast; sign, floor, ceil and round, whose gradient is zero
// neg, abs, sign and square also take integers, identity and cast everything; the others only floating values.
#pragma once

#include <limits>

#include "plimsoll/program/builder.h"

namespace plimsoll::program {

Value relu(Builder& b, Value x);
Value leaky_relu(Builder& b, Value x, double slope = 0.01);
// At the bounds the gradient is zero.
Value clamp(Builder& b, Value x, double low, double high = std::numeric_limits<double>::infinity());
Value relu6(Builder& b, Value x);                                                     // clamp to 0 .. 6
Value hard_sigmoid(Builder& b, Value x, double scale = 1.0 / 6, double shift = 0.5);  // scale * x + shift in 0 .. 1

Value sigmoid(Builder& b, Value x);
Value tanh(Builder& b, Value x);
Value exp(Builder& b, Value x);
Value sqrt(Builder& b, Value x);
Value rsqrt(Builder& b, Value x);  // 1 / sqrt(x)
Value reciprocal(Builder& b, Value x);
Value elu(Builder& b, Value x, double alpha = 1);      // alpha * (exp(x) - 1) below zero; alpha of at least 0
Value softplus(Builder& b, Value x, double beta = 1);  // log(1 + exp(beta * x)) / beta; beta above 0

Value log(Builder& b, Value x);
Value silu(Builder& b, Value x);        // x * sigmoid(x)
Value gelu(Builder& b, Value x);        // x * Phi(x), by erf
Value gelu_tanh(Builder& b, Value x);   // Phi approximated by tanh
Value mish(Builder& b, Value x);        // x * tanh(softplus(x))
Value hard_swish(Builder& b, Value x);  // x * hard_sigmoid(x)
Value abs(Builder& b, Value x);
Value square(Builder& b, Value x);
Value sin(Builder& b, Value x);
Value cos(Builder& b, Value x);
Value erf(Builder& b, Value x);
Value pow(Builder& b, Value x, double exponent);  // op pow_scalar

Value neg(Builder& b, Value x);
Value sign(Builder& b, Value x);
Value floor(Builder& b, Value x);
Value ceil(Builder& b, Value x);
Value round(Builder& b, Value x);     // halves to even
Value identity(Builder& b, Value x);  // a view

struct AffineOptions {
  double scale = 1;
  Dim divisor = 1;  // a Dim, so that means can divide by `batch`
  double shift = 0;
};
// x * scale / divisor + shift.
Value affine(Builder& b, Value x, const AffineOptions& options);

// To whole numbers by cutting off the fraction; to bool: whether it is not zero. A view when the dtype is the same.
Value cast(Builder& b, Value x, DType dtype);

}  // namespace plimsoll::program
