// The samples of one training step. They are read micro-batch by micro-batch, so a batch need never be in memory whole.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <variant>

#include "plimsoll/program/program.h"

namespace plimsoll::train {

class Batch {
 public:
  virtual ~Batch() = default;

  // Writes samples of the batch, from sample `first` on, into the memory of an input of a bound program: as many as its
  // dimension 0 says. However the batch is divided, sample i is the same.
  virtual void read(const program::Program& program, program::Value input, int64_t first,
                    std::span<std::byte> into) const = 0;

  // Which sample of the data this sample of the batch is; nothing where it is of none.
  virtual std::optional<int64_t> index_of(int64_t /*sample*/) const { return std::nullopt; }
};

// Arrays of the caller's, by the name of the input that each is for: row-major, one sample after the other. They are
// not copied, and must be there while a step reads them. Floats are rounded to the input's dtype.
//
//   ArrayBatch batch({{"x", images}, {"target", labels}});   // std::vector<float>, std::vector<int64_t>
class ArrayBatch : public Batch {
 public:
  using Array = std::variant<std::span<const float>, std::span<const int64_t>>;

  explicit ArrayBatch(std::map<std::string, Array> arrays) : arrays_(std::move(arrays)) {}

  // ArgumentError for an input without an array, an array of another kind, and one that ends before the last sample.
  void read(const program::Program& program, program::Value input, int64_t first,
            std::span<std::byte> into) const override;

 private:
  std::map<std::string, Array> arrays_;
};

}  // namespace plimsoll::train
