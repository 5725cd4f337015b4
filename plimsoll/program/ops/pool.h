// Pools over one to three spatial dimensions of x[batch, channels, spatial ..]. The backward pass of a maximum reads
// where in each window it was found, that of an average reads nothing but dy.
#pragma once

#include "plimsoll/program/builder.h"

namespace plimsoll::program {

// Lists are one number for all spatial dimensions or one for each; padding also one for each side, those before first:
// {top, left, bottom, right}.
struct PoolOptions {
  Dims kernel;
  Dims stride = {};               // empty: the kernel
  Dims padding = {};              // empty: none; less than a window spans
  Dims dilation = {};             // empty: 1
  bool ceil_mode = false;         // adds a last window that hangs over the end, if it starts before it
  bool count_include_pad = true;  // averages: whether padding counts as zeros, or not at all
};

// Padding never is the maximum. Saves a byte for each result where a window has at most 256 elements, else an i32.
Value max_pool(Builder& b, Value x, const PoolOptions& options);
Value avg_pool(Builder& b, Value x, const PoolOptions& options);

// As many windows as `size` says (one number for all spatial dimensions or one for each): window i of n over a
// dimension of m goes from floor(i * m / n) to ceil((i + 1) * m / n). The maximum saves an i32 for each result.
Value adaptive_max_pool(Builder& b, Value x, const Dims& size);
Value adaptive_avg_pool(Builder& b, Value x, const Dims& size);

// One window: the result is [batch, channels, 1 ..].
Value global_max_pool(Builder& b, Value x);
Value global_avg_pool(Builder& b, Value x);

}  // namespace plimsoll::program
