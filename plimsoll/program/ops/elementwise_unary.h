// Element-wise ops of one operand. All keep dtype and shape, may run in place, and differ in what their backward pass
// reads: a bit mask (relu), the output (sigmoid, tanh, exp, sqrt), the input (the others), nothing (neg).
#pragma once

#include "plimsoll/program/builder.h"

namespace plimsoll::program {

Value relu(Builder& b, Value x);
Value sigmoid(Builder& b, Value x);
Value tanh(Builder& b, Value x);
Value exp(Builder& b, Value x);
Value sqrt(Builder& b, Value x);
Value log(Builder& b, Value x);
Value silu(Builder& b, Value x);  // x * sigmoid(x)
Value gelu(Builder& b, Value x);  // x * Phi(x), by erf
Value neg(Builder& b, Value x);

}  // namespace plimsoll::program
