// Rules of shapes that several families of ops share. They reject through the Call.
#pragma once

#include <bitset>
#include <initializer_list>
#include <optional>

#include "plimsoll/program/op.h"

namespace plimsoll::program {

// One bit for each element, eight to a byte, the first in the lowest bit.
Type bit_mask(const Dims& shape);

// The shape that these operands broadcast to: aligned at the last dimension, sizes equal or 1.
Dims broadcast(const OpCall& call, std::initializer_list<int> operands);
// The shape that both broadcast to; nothing when they do not.
std::optional<Dims> broadcast_shapes(const Dims& a, const Dims& b);
// Whether an operand of shape `from` may stand where `to` is wanted.
bool broadcasts_to(const Dims& from, const Dims& to);

// Dimensions of a shape, by their place.
using AxisSet = std::bitset<Shape::kMaxRank>;

// What the attribute `axes` names among `rank` dimensions, counted from the end when negative; all when it is empty.
AxisSet reduced_axes(const OpCall& call, int rank);
AxisSet reduced_axes(const Dims& axes, int rank);  // the same for axes that were checked
// Without these dimensions, or with 1 in their places.
Dims reduced_shape(const Dims& shape, AxisSet axes, bool keepdims);
// How many elements become one.
Dim reduced_count(const Dims& shape, AxisSet axes);

void require_number(const OpCall& call, int i);  // floating or integer
void require_integer(const OpCall& call, int i);
// The attribute `dtype`.
DType dtype_attribute(const OpCall& call);

// Dims that are all the same.
Dims repeated(Dim dim, int rank);
// The attribute must have one number for each of `rank` dimensions.
void require_one_each(const OpCall& call, const char* attribute, int rank);
// Whether index is a place in a dimension of this size, as far as is known before sizes are bound.
bool may_be_in(Dim index, Dim size);

Dim no_flops(const OpCall& call);

}  // namespace plimsoll::program
