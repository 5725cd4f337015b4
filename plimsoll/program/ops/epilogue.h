// Products that end with what follows them: relu(conv(x, w, bias) + residual) as one op, which writes its result once.
//
//   %y = conv_epilogue(%x, %w, %bias, %residual) {residual=true, relu=true}
//
// conv_epilogue, linear_epilogue and matmul_epilogue have the operands and attributes of conv, linear and matmul. With
// `residual` one more operand, the last, is added; it broadcasts to the result, which may take its memory. With `relu`
// the result is cut at zero, and `mask` has a bit for each element above it. The pass fuse_epilogues makes these from
// whole steps; they have no gradients.
#pragma once

#include <string_view>

#include "plimsoll/program/op.h"

namespace plimsoll::program {

// The op that does the same as this product, as far as it goes, with an epilogue; nullptr for ops that have none. An op
// with an epilogue is its own.
const OpDef* epilogue_form(const OpDef& product);

// The product of an op with an epilogue: the same call of conv, linear or matmul. Keep `call` while it is in use.
OpCall product_call(const OpCall& call);

}  // namespace plimsoll::program
