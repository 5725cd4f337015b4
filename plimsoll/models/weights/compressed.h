// Weights in fewer bits: rows of i8 with a scale for each, or of 4 bits with a scale for each group of neighbours. In
// memory, and as safetensors that say how they are to be read, with the shapes of a model whose channels were pruned.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "plimsoll/base/shape.h"
#include "plimsoll/models/zoo/zoo.h"

namespace plimsoll::models {

// A row is all that has one place in the first dimension. x is about scale * q, with q from -127 to 127 in 8 bits and
// from -7 to 7 in 4, two to a byte, the first in the lower half, each row in bytes of its own.
struct CompressedTensor {
  std::string name = {};
  Shape shape = {};
  int bits = 32;      // 32: f32 as it is, 8 or 4
  int64_t group = 0;  // elements of a row that share a scale; 0: all
  std::vector<std::byte> data = {};
  std::vector<float> scales = {};  // by row and group; none for f32

  int64_t rows() const { return shape.rank() == 0 ? 1 : shape[0]; }
  int64_t columns() const { return rows() == 0 ? 0 : shape.elements() / rows(); }
  int64_t groups() const { return group == 0 ? 1 : (columns() + group - 1) / group; }
  int64_t row_bytes() const { return bits == 4 ? (columns() + 1) / 2 : columns() * bits / 8; }
  int64_t bytes() const { return static_cast<int64_t>(data.size() + scales.size() * sizeof(float)); }

  // Elements from the `first` on, in row-major order.
  void read(std::span<float> into, uint64_t first) const;
};

CompressedTensor plain_tensor(std::string name, const Shape& shape, std::span<const float> values);

// `importance` of each column (a mean of squares of what it multiplies): each scale is the one with the least error of
// the products, by it, among some that clip the largest values. Empty: all columns weigh the same.
CompressedTensor quantize_tensor(std::string name, const Shape& shape, std::span<const float> values, int bits,
                                 int64_t group, std::span<const float> importance = {});

using CompressedTensors = std::vector<CompressedTensor>;

// The model with these in place of its own, by name; where their shapes are others, with_parameter_shapes (prune.h)
// makes it one of these. `where` is told in messages. ArgumentError for a parameter that is not there.
ModelInfo with_tensors(ModelInfo info, std::shared_ptr<const CompressedTensors> tensors, const std::string& where);

// The file appears under its name when it is whole.
void write_compressed(const std::string& path, const CompressedTensors& tensors);
// Whether a .safetensors file was written so. InputError as read_stored_file.
bool is_compressed(const std::string& path);
// InputError for what does not fit together.
CompressedTensors read_compressed(const std::string& path);

}  // namespace plimsoll::models
