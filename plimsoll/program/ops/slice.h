// Taking values apart and putting them together. slice and split are views, concat copies. Their gradients read
// nothing: those of concat are views of dy, that of split is one concat.
#pragma once

#include "plimsoll/program/builder.h"

namespace plimsoll::program {

// One dimension of a slice, as Python writes x[start:end:step]. Numbers count from the end when negative and are cut to
// the dimension where both are numbers. Without `end` everything from start on, in the direction of the step.
struct Range {
  int axis = 0;
  Dim start = 0;
  std::optional<Dim> end = {};
  int64_t step = 1;
};
Value slice(Builder& b, Value x, std::span<const Range> ranges);
Value slice(Builder& b, Value x, const Range& range);

// Pieces along a dimension: `parts` equal ones, or of these sizes (at most 8), which must add up.
std::vector<Value> split(Builder& b, Value x, int axis, int parts);
std::vector<Value> split(Builder& b, Value x, int axis, const Dims& sizes);

// One after another along a dimension; the other dimensions agree.
Value concat(Builder& b, std::span<const Value> xs, int axis);

}  // namespace plimsoll::program
