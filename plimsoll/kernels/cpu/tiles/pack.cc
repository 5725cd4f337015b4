#include "plimsoll/kernels/cpu/tiles/pack.h"

#include <algorithm>
#include <cstring>

#include "plimsoll/kernels/cpu/simd/simd.h"
#include "plimsoll/kernels/cpu/support/parallel.h"

namespace plimsoll::kernels::tiles {
namespace {

constexpr int64_t kHalf = kBlock / 2;           // columns of a tile
constexpr int64_t kPairs = kDepth / 2;          // rows of a tile
constexpr int64_t kTileSize = kPairs * kBlock;  // elements

// Pairs of rows of kBlock elements, each pair of elements one after the other: the first half of them into a row of one
// tile, the others into a row of the next.
PLIMSOLL_VECTORISED void interleave(const uint16_t* from, int64_t row, int64_t pairs, uint16_t* to) {
  for (int64_t pair = 0; pair < pairs; ++pair, from += 2 * row) {
    uint16_t* line = to + pair / kPairs * 2 * kTileSize + pair % kPairs * kBlock;
    for (int64_t tile = 0; tile < 2; ++tile) {
      uint32_t both[kHalf];
      for (int64_t i = 0; i < kHalf; ++i) {
        both[i] = uint32_t{from[tile * kHalf + i]} | uint32_t{from[row + tile * kHalf + i]} << 16;
      }
      std::memcpy(line + tile * kTileSize, both, sizeof(both));
    }
  }
}

}  // namespace

void pack_rows(const uint16_t* from, int64_t row, int64_t depth, uint16_t* to) {
  const int64_t whole = depth / 2 * 2;
  interleave(from, row, whole / 2, to);
  const auto element = [&](int64_t k, int64_t j) { return k < depth ? from[k * row + j] : uint16_t{0}; };
  for (int64_t k = whole; k < steps_of(depth) * kDepth; ++k) {
    for (int64_t j = 0; j < kBlock; ++j) to[packed_place(k, j)] = element(k, j);
  }
}

void pack_lines(const uint16_t* from, int64_t line, int64_t columns, int64_t depth, uint16_t* to) {
  const auto transpose = simd::functions().transpose;
  if (columns < kBlock) std::fill_n(to, packed_size(depth), uint16_t{0});
  for (int64_t step = 0; step < depth / kDepth; ++step, from += kDepth, to += 2 * kTileSize) {
    for (int64_t tile = 0; tile * kHalf < columns; ++tile) {
      // Two neighbours in a line are one element of 32 bits, which keeps its bits whatever number they would be.
      transpose(reinterpret_cast<const float*>(from + tile * kHalf * line), line / 2,
                reinterpret_cast<float*>(to + tile * kTileSize), kHalf, std::min(kHalf, columns - tile * kHalf),
                kPairs);
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
