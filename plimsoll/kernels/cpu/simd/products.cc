// Products and transposes of small matrices, and convolutions of images with few channels. Tiles are as large as the
// registers of the target hold.
#include "plimsoll/kernels/cpu/simd/targets.h"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "plimsoll/kernels/cpu/simd/products.cc"
#include <hwy/foreach_target.h>

#include "plimsoll/kernels/cpu/simd/vectors-inl.h"

HWY_BEFORE_NAMESPACE();
namespace plimsoll::kernels::simd {
namespace HWY_NAMESPACE {
namespace {

HWY_INLINE Register load_one(const float* from) { return hn::LoadU(DF(), from); }
HWY_INLINE void store_one(float* to, Register x) { hn::StoreU(x, DF(), to); }

// ---- products ----

// A tile of sums in registers, and beside it a line of b and a factor of a.
constexpr int kTileRows = HWY_NATIVE_FMA ? 6 : 4;
constexpr int kTileVectors = kManyRegisters ? 4 : 2;

// R rows by V vectors of c, kept in registers over the whole inner dimension.
template <int R, int V>
HWY_INLINE void block(const TileProduct& p, int64_t row, int64_t column) {
  Register sums[R][V];
  for (int r = 0; r < R; ++r) {
    for (int v = 0; v < V; ++v) {
      sums[r][v] = p.add ? load_one(p.c + (row + r) * p.c_row + column + v * kWidth) : hn::Zero(DF());
    }
  }
  const float* a = p.a + row * p.a_row;
  const float* b = p.b + column;
  for (int64_t k = 0; k < p.inner; ++k) {
    Register line[V];
    for (int v = 0; v < V; ++v) line[v] = load_one(b + k * p.b_row + v * kWidth);
    for (int r = 0; r < R; ++r) {
      const Register factor = hn::Set(DF(), a[r * p.a_row + k * p.a_step]);
      for (int v = 0; v < V; ++v) sums[r][v] = hn::MulAdd(factor, line[v], sums[r][v]);
    }
  }
  for (int r = 0; r < R; ++r) {
    for (int v = 0; v < V; ++v) store_one(p.c + (row + r) * p.c_row + column + v * kWidth, sums[r][v]);
  }
}

template <int V>
HWY_INLINE void columns_block(const TileProduct& p, int64_t column) {
  int64_t row = 0;
  const auto has = [&](int64_t rows) { return p.rows - row >= rows; };
  // The last eight rows are two tiles of four: two rows alone wait for their sums.
  for (; has(kTileRows) && p.rows - row != 8; row += kTileRows) block<kTileRows, V>(p, row, column);
  for (; has(4); row += 4) block<4, V>(p, row, column);
  for (; has(2); row += 2) block<2, V>(p, row, column);
  for (; has(1); ++row) block<1, V>(p, row, column);
}

// What is left of a width that is no multiple of a vector.
void last_columns(const TileProduct& p, int64_t first) {
  for (int64_t row = 0; row < p.rows; ++row) {
    for (int64_t column = first; column < p.columns; ++column) {
      float sum = p.add ? p.c[row * p.c_row + column] : 0;
      for (int64_t k = 0; k < p.inner; ++k) sum += p.a[row * p.a_row + k * p.a_step] * p.b[k * p.b_row + column];
      p.c[row * p.c_row + column] = sum;
    }
  }
}

void multiply(const TileProduct& p) {
  constexpr int64_t kColumns = kTileVectors * kWidth;
  int64_t column = 0;
  for (; column + kColumns <= p.columns; column += kColumns) columns_block<kTileVectors>(p, column);
  for (; column + kWidth <= p.columns; column += kWidth) columns_block<1>(p, column);
  last_columns(p, column);
}

// ---- transposes ----

// Four rows: of each of their blocks of four columns a square, transposed.
HWY_INLINE void transpose_blocks(Register& a, Register& b, Register& c, Register& d) {
  const Register even_low = hn::InterleaveLower(DF(), a, c);
  const Register even_high = hn::InterleaveUpper(DF(), a, c);
  const Register odd_low = hn::InterleaveLower(DF(), b, d);
  const Register odd_high = hn::InterleaveUpper(DF(), b, d);
  a = hn::InterleaveLower(DF(), even_low, odd_low);
  b = hn::InterleaveUpper(DF(), even_low, odd_low);
  c = hn::InterleaveLower(DF(), even_high, odd_high);
  d = hn::InterleaveUpper(DF(), even_high, odd_high);
}

// Exchanges block k of row g with block g of row k, for rows that are four apart.
HWY_INLINE void transpose_columns_of_blocks(Register* rows) {
#if HWY_MAX_BYTES == 32
  const Register first = hn::ConcatLowerLower(DF(), rows[4], rows[0]);
  rows[4] = hn::ConcatUpperUpper(DF(), rows[4], rows[0]);
  rows[0] = first;
#elif HWY_MAX_BYTES == 64
  const auto even = [](Register a, Register b) HWY_ATTR { return hn::OddEvenBlocks(hn::SwapAdjacentBlocks(b), a); };
  const auto odd = [](Register a, Register b) HWY_ATTR { return hn::OddEvenBlocks(b, hn::SwapAdjacentBlocks(a)); };
  const Register early_even = even(rows[0], rows[4]);
  const Register early_odd = odd(rows[0], rows[4]);
  const Register late_even = even(rows[8], rows[12]);
  const Register late_odd = odd(rows[8], rows[12]);
  rows[0] = hn::ConcatLowerLower(DF(), late_even, early_even);
  rows[4] = hn::ConcatLowerLower(DF(), late_odd, early_odd);
  rows[8] = hn::ConcatUpperUpper(DF(), late_even, early_even);
  rows[12] = hn::ConcatUpperUpper(DF(), late_odd, early_odd);
#else
  static_cast<void>(rows);
#endif
}

HWY_INLINE void transpose_square(const float* from, int64_t from_row, float* to, int64_t to_row) {
  Register rows[kWidth];
  for (int64_t row = 0; row < kWidth; ++row) rows[row] = load_one(from + row * from_row);
  for (int64_t row = 0; row < kWidth; row += 4) {
    transpose_blocks(rows[row], rows[row + 1], rows[row + 2], rows[row + 3]);
  }
  for (int64_t row = 0; row < 4; ++row) transpose_columns_of_blocks(rows + row);
  for (int64_t row = 0; row < kWidth; ++row) store_one(to + row * to_row, rows[row]);
}

void transpose(const float* from, int64_t from_row, float* to, int64_t to_row, int64_t rows, int64_t columns) {
  const int64_t whole_rows = rows / kWidth * kWidth;
  const int64_t whole_columns = columns / kWidth * kWidth;
  for (int64_t row = 0; row < whole_rows; row += kWidth) {
    for (int64_t column = 0; column < whole_columns; column += kWidth) {
      transpose_square(from + row * from_row + column, from_row, to + column * to_row + row, to_row);
    }
  }
  for (int64_t row = 0; row < rows; ++row) {
    const int64_t first = row < whole_rows ? whole_columns : 0;
    for (int64_t column = first; column < columns; ++column) to[column * to_row + row] = from[row * from_row + column];
  }
}

// ---- convolutions of few channels ----

constexpr int kForwardVectors = kManyRegisters ? 4 : 3;
constexpr int64_t kForwardColumns = kForwardVectors * kWidth;
static_assert(kForwardColumns <= NarrowRow::kFewestColumns);

// kForwardColumns results in one row of each of kOut channels; `at` is the first tap's element of the image.
template <int kOut>
HWY_INLINE void forward_tile(const NarrowRow& c, const float* at, const float* w, const float* bias, float* y) {
  Register sums[kOut][kForwardVectors];
  for (int o = 0; o < kOut; ++o) {
    for (int i = 0; i < kForwardVectors; ++i) sums[o][i] = hn::Set(DF(), bias == nullptr ? 0.0F : bias[o]);
  }
  const int64_t taps = c.taps();
  for (int64_t channel = 0, tap = 0; channel < c.in; ++channel) {
    for (int64_t ky = 0; ky < c.kernel_h; ++ky) {
      const float* row = at + channel * c.image_plane + ky * c.image_row;
      for (int64_t kx = 0; kx < c.kernel_w; ++kx, ++tap) {
        Register x[kForwardVectors];
        for (int i = 0; i < kForwardVectors; ++i) x[i] = load_one(row + kx + i * kWidth);
        for (int o = 0; o < kOut; ++o) {
          const Register factor = hn::Set(DF(), w[o * taps + tap]);
          for (int i = 0; i < kForwardVectors; ++i) sums[o][i] = hn::MulAdd(factor, x[i], sums[o][i]);
        }
      }
    }
  }
  for (int o = 0; o < kOut; ++o) {
    for (int i = 0; i < kForwardVectors; ++i) store_one(y + o * c.y_plane + i * kWidth, sums[o][i]);
  }
}

// The last tile ends with the row, over what the one before it made.
void narrow_forward(const NarrowRow& c, const float* image, const float* w, const float* bias, float* y) {
  constexpr int kOut = HWY_NATIVE_FMA ? 4 : 3;
  const auto bias_of = [&](int64_t o) { return bias == nullptr ? nullptr : bias + o; };
  for (int64_t x = 0; x < c.columns; x += kForwardColumns) {
    const int64_t first = x < c.columns - kForwardColumns ? x : c.columns - kForwardColumns;
    int64_t o = 0;
    for (; o + kOut <= c.out; o += kOut) {
      forward_tile<kOut>(c, image + first, w + o * c.taps(), bias_of(o), y + first + o * c.y_plane);
    }
    for (; o < c.out; ++o) {
      forward_tile<1>(c, image + first, w + o * c.taps(), bias_of(o), y + first + o * c.y_plane);
    }
  }
}

// The products of a vector of columns of dy's channels with those of one row of taps.
template <int kOuts, int kKernel>
HWY_INLINE void add_taps(Register (&sums)[kOuts][kKernel], const float* x, const float* dy, int64_t plane,
                         hn::Mask<DF> counts) {
  Register shifted[kKernel];
  for (int k = 0; k < kKernel; ++k) shifted[k] = hn::IfThenElseZero(counts, load_one(x + k));
  for (int o = 0; o < kOuts; ++o) {
    const Register g = load_one(dy + o * plane);
    for (int k = 0; k < kKernel; ++k) sums[o][k] = hn::MulAdd(g, shifted[k], sums[o][k]);
  }
}

// Adds to dw[kOuts][taps] the products of some rows of dy's channels with one row of taps. The last columns are taken
// together with some that were counted before.
template <int kOuts, int kKernel>
HWY_INLINE void backward_taps(const NarrowRow& c, const float* x, const float* dy, int64_t rows, double* dw) {
  const int64_t whole = c.columns / kWidth * kWidth;
  const int64_t last = c.columns - kWidth;
  const auto every = hn::FirstN(DF(), kWidth);
  const auto rest = hn::Not(hn::FirstN(DF(), static_cast<size_t>(whole - last)));
  Register sums[kOuts][kKernel];
  for (int o = 0; o < kOuts; ++o) {
    for (int k = 0; k < kKernel; ++k) sums[o][k] = hn::Zero(DF());
  }
  for (int64_t y = 0; y < rows; ++y) {
    const float* in = x + y * c.image_row;
    const float* of = dy + y * c.columns;
    for (int64_t i = 0; i < whole; i += kWidth) add_taps(sums, in + i, of + i, c.y_plane, every);
    if (whole < c.columns) add_taps(sums, in + last, of + last, c.y_plane, rest);
  }
  for (int o = 0; o < kOuts; ++o) {
    for (int k = 0; k < kKernel; ++k) {
      float lanes[kWidth];
      store_one(lanes, sums[o][k]);
      float sum = 0;
      for (const float lane : lanes) sum += lane;
      dw[o * c.taps() + k] += static_cast<double>(sum);
    }
  }
}

// NarrowRow::kOuts channels against one row of taps.
template <int kKernel>
HWY_INLINE void backward_row(const NarrowRow& c, const float* x, const float* dy, int64_t rows, double* dw) {
  constexpr int kSums = kManyRegisters ? 24 : 12;
  constexpr int kOuts = kSums / kKernel >= 8 ? 8 : kSums / kKernel >= 4 ? 4 : 2;
  static_assert(NarrowRow::kOuts % kOuts == 0);
  for (int64_t o = 0; o < NarrowRow::kOuts; o += kOuts) {
    backward_taps<kOuts, kKernel>(c, x, dy + o * c.y_plane, rows, dw + o * c.taps());
  }
}

HWY_INLINE void backward_outs(const NarrowRow& c, const float* image, const float* dy, int64_t rows, double* dw) {
  for (int64_t channel = 0; channel < c.in; ++channel) {
    for (int64_t ky = 0; ky < c.kernel_h; ++ky, dw += c.kernel_w) {
      const float* in = image + channel * c.image_plane + ky * c.image_row;
      if (c.kernel_w == 3) {
        backward_row<3>(c, in, dy, rows, dw);
      } else if (c.kernel_w == 5) {
        backward_row<5>(c, in, dy, rows, dw);
      } else {
        for (int64_t k = 0; k < c.kernel_w; ++k) backward_row<1>(c, in + k, dy, rows, dw + k);
      }
    }
  }
}

void narrow_backward(const NarrowRow& c, const float* image, const float* dy, int64_t rows, double* dw) {
  for (int64_t o = 0; o < c.out; o += NarrowRow::kOuts) {
    backward_outs(c, image, dy + o * c.y_plane, rows, dw + o * c.taps());
  }
}

void products(Functions& functions) {
  functions.multiply = multiply;
  functions.transpose = transpose;
  functions.narrow_forward = narrow_forward;
  functions.narrow_backward = narrow_backward;
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace plimsoll::kernels::simd
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace plimsoll::kernels::simd {
void add_products(Isa isa, Functions& functions) { PLIMSOLL_FOR_ISA(isa, products)(functions); }
}  // namespace plimsoll::kernels::simd
#endif
