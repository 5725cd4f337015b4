// Adafactor: an update whose running mean of squared gradients is kept as sums over rows and columns, so that state
// takes bytes of the sides of a matrix and not of its area. A parameter of more than two dimensions is the matrix of
// its first dimension by all others. As in PyTorch: in step t the mean takes in t^-0.8 of what is new; the update is
// divided by its root mean square where that is above 1, and goes min(rate, 1/sqrt(t)) times the root mean square of w,
// which counts as 1e-3 at least.
#pragma once

#include "plimsoll/program/builder.h"

namespace plimsoll::program {

// Means of squares, one for each row and one for each column.
struct FactoredSquares {
  Value rows;
  Value columns;
};

// Of a parameter of at least two dimensions.
Dims rows_of(const Dims& shape);
Dims columns_of(const Dims& shape);

struct FactoredOptions {
  double weight_decay = 0;  // rate times it is taken off w directly
  Value scale = {};         // of dw; nothing: 1
};

// Overwrites w and the means. `step` is 1 in the first step.
Value adafactor(Builder& b, Value w, Value dw, FactoredSquares squares, Value step, Value rate,
                FactoredOptions options = {});
// Of a parameter of one dimension, or none: `square` is of its shape.
Value adafactor_vector(Builder& b, Value w, Value dw, Value square, Value step, Value rate,
                       FactoredOptions options = {});

inline constexpr double kFactoredDecay = -0.8;         // the power of the step
inline constexpr double kLeastSquare = 1.1920929e-07;  // of a mean of squares' root, and of a row's mean
inline constexpr double kLeastParameter = 1e-3;        // root mean square of w

}  // namespace plimsoll::program
