// Where the samples of a batch come from. They are asked for part by part, so a batch need never be in memory whole.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "plimsoll/program/program.h"

namespace plimsoll::train {

class Data {
 public:
  virtual ~Data() = default;

  // Writes samples of the batch, from sample `first` on, into the memory of an input of a bound program: as many as its
  // dimension 0 says. However the batch is cut, sample i is the same.
  virtual void read(const program::Program& program, program::Value input, int64_t first,
                    std::span<std::byte> into) = 0;
};

}  // namespace plimsoll::train
