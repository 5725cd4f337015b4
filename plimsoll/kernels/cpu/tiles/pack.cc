#include "plimsoll/kernels/cpu/tiles/pack.h"

#include <algorithm>
#include <cstring>

#include "plimsoll/kernels/cpu/simd/simd.h"
#include "plimsoll/kernels/cpu/support/vectorised.h"

namespace plimsoll::kernels::tiles {
namespace {

constexpr int64_t kHalf = kBlock / 2;           // columns of a tile
constexpr int64_t kPairs = kDepth / 2;          // rows of a tile
constexpr int64_t kTileSize = kPairs * kBlock;  // elements

// Two neighbours in a line are one element of 32 bits, which keeps its bits whatever number they would be.
void transpose_pairs(const uint16_t* from, int64_t from_line, int64_t lines, uint16_t* to, int64_t to_line,
                     int64_t pairs) {
  simd::functions().transpose(reinterpret_cast<const float*>(from), from_line / 2, reinterpret_cast<float*>(to),
                              to_line / 2, lines, pairs);
}

// Pairs of rows of kBlock elements, each pair of elements one after the other: the first half of them into a row of one
// tile, the others into a row of the next. `rows(k)` is where row k is.
template <class Rows>
[[gnu::always_inline]] inline void interleave(const Rows& rows, int64_t pairs, uint16_t* to) {
  for (int64_t pair = 0; pair < pairs; ++pair) {
    const uint16_t* first = rows(2 * pair);
    const uint16_t* second = rows(2 * pair + 1);
    uint16_t* line = to + pair / kPairs * 2 * kTileSize + pair % kPairs * kBlock;
    for (int64_t tile = 0; tile < 2; ++tile) {
      uint32_t both[kHalf];
      for (int64_t i = 0; i < kHalf; ++i) {
        both[i] = uint32_t{first[tile * kHalf + i]} | uint32_t{second[tile * kHalf + i]} << 16;
      }
      std::memcpy(line + tile * kTileSize, both, sizeof(both));
    }
  }
}

void interleave_rows(const uint16_t* from, int64_t row, int64_t pairs, uint16_t* to) {
  vectorised([=] { interleave([=](int64_t k) { return from + k * row; }, pairs, to); });
}

void interleave_at(const uint16_t* const* rows, int64_t offset, int64_t pairs, uint16_t* to) {
  vectorised([=] { interleave([=](int64_t k) { return rows[k] + offset; }, pairs, to); });
}

// What pairs leave over, and zeros up to a whole step. `last` is the row before `depth`.
void pack_rest(const uint16_t* last, int64_t depth, uint16_t* to) {
  for (int64_t k = depth / 2 * 2; k < steps_of(depth) * kDepth; ++k) {
    for (int64_t j = 0; j < kBlock; ++j) to[packed_place(k, j)] = k < depth ? last[j] : uint16_t{0};
  }
}

}  // namespace

void pack_rows(const uint16_t* from, int64_t row, int64_t depth, uint16_t* to) {
  interleave_rows(from, row, depth / 2, to);
  pack_rest(from + (depth - 1) * row, depth, to);
}

void pack_rows(const uint16_t* const* rows, int64_t offset, int64_t depth, uint16_t* to) {
  interleave_at(rows, offset, depth / 2, to);
  pack_rest(rows[depth - 1] + offset, depth, to);
}

void transpose_rows(const uint16_t* from, int64_t row, int64_t depth, uint16_t* to, int64_t to_row) {
  for (int64_t k = 0; k < depth; k += kDepth, from += kDepth * row) {
    alignas(64) uint16_t packed[2 * kTileSize];
    pack_rows(from, row, std::min(kDepth, depth - k), packed);
    for (int64_t tile = 0; tile < 2; ++tile) {
      transpose_pairs(packed + tile * kTileSize, kBlock, kPairs, to + k + tile * kHalf * to_row, to_row, kHalf);
    }
  }
}

void pack_lines(const uint16_t* from, int64_t line, int64_t columns, int64_t depth, uint16_t* to) {
  if (columns < kBlock) std::fill_n(to, packed_size(depth), uint16_t{0});
  for (int64_t step = 0; step < depth / kDepth; ++step, from += kDepth, to += 2 * kTileSize) {
    for (int64_t tile = 0; tile * kHalf < columns; ++tile) {
      transpose_pairs(from + tile * kHalf * line, line, std::min(kHalf, columns - tile * kHalf), to + tile * kTileSize,
                      kBlock, kPairs);
    }
  }
}

void pad_rows(const uint16_t* from, int64_t row, int64_t rows, int64_t columns, uint16_t* to, int64_t to_rows,
              int64_t to_row) {
  for (int64_t i = 0; i < to_rows; ++i, to += to_row) {
    const int64_t kept = i < rows ? columns : 0;
    std::copy_n(from + (i < rows ? i * row : 0), kept, to);
    std::fill(to + kept, to + to_row, uint16_t{0});
  }
}

}  // namespace plimsoll::kernels::tiles
