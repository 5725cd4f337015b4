// Indices that come in as values.
#pragma once

#include <fmt/format.h>

#include <string>

#include "plimsoll/base/error.h"
#include "plimsoll/kernels/kernel.h"

namespace plimsoll::kernels {

// What the indices of one op may be. Check them before anything is written, and outside of parallel loops.
struct IndexRange {
  int64_t size;           // of the dimension
  bool from_end = false;  // negative ones count from the end
  std::string op;         // for messages

  IndexRange(const KernelCall& call, int operand, int64_t dimension, bool negative)
      : size(dimension), from_end(negative), op(fmt::format("{} %{}", call.op.def.name, call.op.label)) {
    if (call.in(operand).dtype != DType::i64) call.unsupported("the CPU reads indices of i64");
  }

  // ArgumentError that names the first that is out of range.
  void check(const int64_t* index, int64_t count) const {
    const int64_t least = from_end ? -size : 0;
    for (int64_t i = 0; i < count; ++i) {
      if (index[i] >= least && index[i] < size) continue;
      throw ArgumentError(
          fmt::format("{}: index {} at place {} is out of range, expected {} to {}", op, index[i], i, least, size - 1));
    }
  }

  int64_t resolve(int64_t index) const { return index < 0 ? index + size : index; }
};

}  // namespace plimsoll::kernels
