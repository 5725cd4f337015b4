// Making values larger by what they hold. Both copy; their gradients read nothing, and that of padding with a constant
// is a view of dy.
#pragma once

#include <string_view>

#include "plimsoll/program/builder.h"

namespace plimsoll::program {

struct PadOptions {
  Dims before;                         // for each dimension
  Dims after;                          // likewise
  std::string_view mode = "constant";  // or "reflect" (the edge is not repeated), "edge"
  double value = 0;
};
Value pad(Builder& b, Value x, const PadOptions& options);

// The whole of x, so many times along each dimension. For a gradient, the dimensions of x and those that are repeated
// are at most 8 together.
Value tile(Builder& b, Value x, const Dims& repeats);

}  // namespace plimsoll::program
