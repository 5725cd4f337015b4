#include "plimsoll/program/quantization.h"

namespace plimsoll::program {

float quantize_row(std::span<const float> row, std::span<int8_t> into) {
  const RowScale<float> found = row_scale(largest_in_size(row), DType::i8);
  for (size_t i = 0; i < row.size(); ++i) into[i] = static_cast<int8_t>(to_byte(row[i], found.inverse, DType::i8));
  return found.scale;
}

}  // namespace plimsoll::program
