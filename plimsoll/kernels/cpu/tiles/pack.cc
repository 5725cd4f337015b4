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

// Two rows of kBlock elements, each pair one after the other: the first half of them into a row of one tile, the others
// into a row of the next.
PLIMSOLL_VECTORISED void interleave(const uint16_t* first, const uint16_t* second, uint16_t* to) {
  for (int64_t tile = 0; tile < 2; ++tile) {
    uint32_t pairs[kHalf];
    for (int64_t i = 0; i < kHalf; ++i) {
      pairs[i] = uint32_t{first[tile * kHalf + i]} | uint32_t{second[tile * kHalf + i]} << 16;
    }
    std::memcpy(to + tile * kTileSize, pairs, sizeof(pairs));
  }
}

constexpr uint16_t kZeros[kBlock] = {};

}  // namespace

void pack_rows(const uint16_t* from, int64_t row, int64_t depth, uint16_t* to) {
  for (int64_t step = 0; step < steps_of(depth); ++step, to += 2 * kTileSize) {
    for (int64_t pair = 0; pair < kPairs; ++pair) {
      const int64_t k = step * kDepth + 2 * pair;
      interleave(k < depth ? from + k * row : kZeros, k + 1 < depth ? from + (k + 1) * row : kZeros,
                 to + pair * kBlock);
    }
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
