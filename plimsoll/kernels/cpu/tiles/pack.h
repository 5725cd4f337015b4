// The right operand of a product of tiles, packed: for every kDepth of its rows two tiles, each of kBlock / 2 columns,
// in which two rows lie element by element beside each other.
#pragma once

#include <cstdint>

#include "plimsoll/kernels/cpu/tiles/tiles.h"

namespace plimsoll::kernels::tiles {

inline int64_t steps_of(int64_t depth) { return (depth + kDepth - 1) / kDepth; }
inline int64_t blocks_of(int64_t count) { return (count + kBlock - 1) / kBlock; }

// bf16 in a packed operand of so many rows and kBlock columns.
inline int64_t packed_size(int64_t depth) { return steps_of(depth) * kDepth * kBlock; }

// Where element [row, column] lies.
inline int64_t packed_place(int64_t row, int64_t column) {
  constexpr int64_t kHalf = kBlock / 2;
  const int64_t tile = row / kDepth * 2 + column / kHalf;
  return (tile * (kDepth / 2) + row % kDepth / 2) * kBlock + column % kHalf * 2 + row % 2;
}

// kBlock columns of `depth` rows that are `row` apart; rows up to a whole step are zero.
void pack_rows(const uint16_t* from, int64_t row, int64_t depth, uint16_t* to);

// Row k is at rows[k] + offset.
void pack_rows(const uint16_t* const* rows, int64_t offset, int64_t depth, uint16_t* to);

// Of a matrix that is given transposed: its `columns` are lines of `depth` elements, `line` apart. `depth` is a
// multiple of kDepth; columns up to kBlock are zero.
void pack_lines(const uint16_t* from, int64_t line, int64_t columns, int64_t depth, uint16_t* to);

// A left operand that is given transposed: kBlock columns of `depth` rows that are `row` apart become kBlock rows,
// `to_row` apart, with zeros up to a whole step.
void transpose_rows(const uint16_t* from, int64_t row, int64_t depth, uint16_t* to, int64_t to_row);

// A left operand with fewer than kBlock rows, or not a multiple of kDepth long: zeros around a copy, `to_row` apart.
void pad_rows(const uint16_t* from, int64_t row, int64_t rows, int64_t columns, uint16_t* to, int64_t to_rows,
              int64_t to_row);

}  // namespace plimsoll::kernels::tiles
