#include "plimsoll/kernels/cpu/tiles/tiles.h"

#if defined(__x86_64__)
#include <immintrin.h>

#include <cstring>

namespace plimsoll::kernels::tiles::amx {
namespace {

constexpr int64_t kTile = 16;                // rows, and f32 or pairs of bf16 in one
constexpr int64_t kBytes = kTile * 4;        // of a row
constexpr int64_t kPacked = kTile * kDepth;  // bf16 in a tile of b

struct alignas(64) Configuration {
  uint8_t palette = 1;
  uint8_t start_row = 0;
  uint8_t reserved[14] = {};
  uint16_t row_bytes[16] = {kBytes, kBytes, kBytes, kBytes, kBytes, kBytes, kBytes, kBytes};
  uint8_t rows[16] = {kTile, kTile, kTile, kTile, kTile, kTile, kTile, kTile};
};

// Not on the stack: compilers do not know how much of it the instruction reads, and might leave the rest unwritten.
constexpr Configuration kWholeTiles;

void begin() { _tile_loadconfig(&kWholeTiles); }

void end() { _tile_release(); }

// Tiles 0 to 3 are c, 4 and 5 rows of a, 6 and 7 columns of b.
void multiply(const BlockProduct& p) {
  float* below = p.c + kTile * p.c_row;
  const int64_t c_bytes = p.c_row * 4;
  const int64_t a_bytes = p.a_row * 2;
  if (p.add) {
    _tile_loadd(0, p.c, c_bytes);
    _tile_loadd(1, p.c + kTile, c_bytes);
    _tile_loadd(2, below, c_bytes);
    _tile_loadd(3, below + kTile, c_bytes);
  } else {
    _tile_zero(0);
    _tile_zero(1);
    _tile_zero(2);
    _tile_zero(3);
  }
  const uint16_t* a = p.a;
  const uint16_t* b = p.b;
  for (int64_t step = 0; step < p.steps; ++step, a += kDepth, b += 2 * kPacked) {
    _tile_loadd(6, b, kBytes);
    _tile_loadd(4, a, a_bytes);
    _tile_dpbf16ps(0, 4, 6);
    _tile_loadd(7, b + kPacked, kBytes);
    _tile_dpbf16ps(1, 4, 7);
    _tile_loadd(5, a + kTile * p.a_row, a_bytes);
    _tile_dpbf16ps(2, 5, 6);
    _tile_dpbf16ps(3, 5, 7);
  }
  _tile_stored(0, p.c, c_bytes);
  _tile_stored(1, p.c + kTile, c_bytes);
  _tile_stored(2, below, c_bytes);
  _tile_stored(3, below + kTile, c_bytes);
}

// Machines with these units have the vector instructions as well.
void downcast(uint16_t* y, const float* x, int64_t count) {
  constexpr int64_t kLanes = 32;
  for (; count >= kLanes; count -= kLanes, x += kLanes, y += kLanes) {
    const __m512bh both = _mm512_cvtne2ps_pbh(_mm512_loadu_ps(x + kLanes / 2), _mm512_loadu_ps(x));
    std::memcpy(y, &both, sizeof(both));
  }
  const auto lanes = [](int64_t wanted) { return static_cast<__mmask16>(wanted < 16 ? (1U << wanted) - 1 : 0xFFFFU); };
  for (; count > 0; count -= kLanes / 2, x += kLanes / 2, y += kLanes / 2) {
    const __mmask16 rest = lanes(count);
    const __m256bh some = _mm512_cvtneps_pbh(_mm512_maskz_loadu_ps(rest, x));
    uint16_t bits[kLanes / 2];
    std::memcpy(bits, &some, sizeof(some));
    std::memcpy(y, bits, static_cast<size_t>(count < kLanes / 2 ? count : kLanes / 2) * 2);
  }
}

}  // namespace

const Functions kFunctions = {begin, multiply, end, downcast};

}  // namespace plimsoll::kernels::tiles::amx
#endif
