// Dropout without a stored mask: random.h draws it again in the backward pass, which reads only the seed.
#pragma once

#include <optional>

#include "plimsoll/program/builder.h"

namespace plimsoll::program {

struct DropoutOptions {
  double rate = 0.5;  // the part that is dropped, 0 to 1
  // Which of the random streams of the seed is drawn from; nothing: the place of this op in the program.
  std::optional<int64_t> stream = std::nullopt;
  // The index of the first element, for a part of a larger batch: the parts then drop what the whole would.
  Dim offset = 0;
};

// Elements of x, each dropped (zero) or kept and divided by 1 - rate. `seed` is an i64[] that differs in every step, or
// an i64[2]: the seed, and how many samples (lines along dimension 0) of the batch come before x, so that parts that
// are taken one after the other drop what the whole would. The gradient is the same op on dy.
Value dropout(Builder& b, Value x, Value seed, const DropoutOptions& options = {});

}  // namespace plimsoll::program
