// Inner loops that are written in vectors, with Highway, and compiled once for each kind of vector that machines have:
// SSE4, AVX2 and AVX-512, or NEON (targets.h). What this machine can run is picked once. Vectors are of 16 numbers, in
// as many registers as those take, so that sums are added up in the same order everywhere. (Loops that a compiler turns
// into vectors by itself are in `vectorised` instead, see support/vectorised.h.)
//
// What is compiled for more than the oldest machine must not use templates or inline functions of others: the linker
// might take their copies for all.
#pragma once

#include <cstdint>

namespace plimsoll::kernels::simd {

inline constexpr int64_t kLanes = 16;

// A product of small matrices that are in the cache: c is [rows, columns], a [rows, inner], b [inner, columns]. Rows
// may be any distance apart; the columns of b and c lie together, those of a `a_step` apart (so a may be transposed).
struct TileProduct {
  int64_t rows, columns, inner;
  const float* a;
  int64_t a_row, a_step;
  const float* b;
  int64_t b_row;
  float* c;
  int64_t c_row;
  bool add;  // to what is in c
};

// Lines of a matrix (rows of a left factor, columns of a right one) that are copied side by side, a panel of a few
// lines at a time: [lines / panel, inner, panel]. Elements are `inner_step` apart along a line, and lines `line_step`.
struct Lines {
  const void* from;
  int64_t count, inner;
  int64_t line_step, inner_step;
};

// c [rows, columns] of two packed factors, whose last panels are whole. Rows of c may be any distance apart.
struct PackedProduct {
  int64_t rows, columns, inner;
  const float* a;
  const float* b;
  float* c;
  int64_t c_row;
  bool add;           // to what is in c
  const float* bias;  // of the columns; null: none
  bool relu;          // at the end
};

struct PackedProducts {
  // Packs into whole panels; what is beyond the last line is of no meaning. Writes up to kLanes numbers behind them.
  struct Pack {
    void (*rows)(const Lines& lines, float* to);
    void (*columns)(const Lines& lines, float* to);
  };
  int64_t panel_rows, panel_columns;
  Pack on_f32, on_bf16, on_f16;
  void (*multiply)(const PackedProduct& product);
};

// Rows of a convolution of an image that has few channels (support/narrow_conv.h): planes in row-major order, strides
// and dilations of 1, padding in the image.
struct NarrowRow {
  static constexpr int64_t kFewestColumns = 64;
  static constexpr int64_t kOuts = 8;  // output channels are a multiple of it

  int64_t in, out, kernel_h, kernel_w;
  int64_t columns;                 // of y
  int64_t image_row, image_plane;  // floats from row to row, and from channel to channel
  int64_t y_plane;

  int64_t taps() const { return in * kernel_h * kernel_w; }
};

// A window of a pool along one dimension: elements start + k * step for k in [first, end), those that are in x.
struct Reach {
  int64_t start, first, end;
  int64_t divisor;  // what an average counts
};

// A window that sees a place of x, as its tap of that number.
struct Hit {
  int64_t window, tap;
};

struct PoolAxis {
  int64_t size;    // of x
  int64_t kernel;  // places in a window: how taps are numbered
  int64_t step;
  const Reach* windows;
  int64_t count;             // of windows
  const Hit* hits;           // of all places of x, one after the other, by windows
  const int64_t* first_hit;  // of each place, and one more
};

// Three dimensions, and kLanes channels beside each other at every place, or several times as many. Indices are in
// blocks of kLanes channels always.
struct PoolPlane {
  PoolAxis axes[3];
  bool numbers_plane;   // taps are numbered by their place in x, not in the window
  int64_t width;        // elements from one place to the next
  int64_t groups;       // of kLanes channels
  int64_t index_group;  // indices from one group to the next
  bool apart;           // no place of x is in two windows
  bool past_caches;     // the gradient of x is written past them; it must be aligned for vectors
};

// Of equal elements the first is the largest, and NaN is above all. Indices may be null. The room of backward ones has
// place for a row of x in f32, and is not needed for that.
template <class Index>
struct MaxPool {
  void (*forward)(const PoolPlane& plane, const void* x, void* y, Index* indices);
  void (*backward)(const PoolPlane& plane, const void* dy, const Index* indices, void* dx, float* workspace);
};

// f16 or bf16, as the bits that they are, to and from f32. Rounds to nearest, halves to even; NaN and infinities stay.
struct LowPrecisionLines {
  void (*upcast)(float* y, const uint16_t* x, int64_t count);
  void (*downcast)(uint16_t* y, const float* x, int64_t count);
  // kLanes of them at each of `count` places: `step` apart, and beside each other in f32.
  void (*upcast_lanes)(float* y, const uint16_t* x, int64_t step, int64_t count);
  void (*downcast_lanes)(uint16_t* y, int64_t step, const float* x, int64_t count);
};

// Loops over elements of one dtype, in place in memory; sums are in f32.
struct ElementLoops {
  // y = x where x is not below zero, and a bit for each x above it; the mask may be null. y may lie where x does.
  void (*relu)(void* y, uint8_t* mask, const void* x, int64_t count);
  // dx = dy where the bit is set, else 0.
  void (*keep)(void* dx, const void* dy, const uint8_t* mask, int64_t count);

  // y = x + z; y may lie where x or z does.
  void (*add)(void* y, const void* x, const void* z, int64_t count);

  // Exponentials are to about 2 units in the last place, and those below the smallest normal number are 0. On f16 and
  // bf16 they are to 2^-17 of themselves, below the smallest normal number anything from 0 to it; GELU is to 2^-13 of
  // itself, its slope to 2^-13: well below what these dtypes tell apart. NaN stays. Results may lie where operands do.
  float (*largest)(const void* x, int64_t count);  // minus infinity when there is none; NaN is passed over
  // Of exp(x - shift). Fetches what lies behind x meanwhile: lines are read one after the other.
  float (*sum_of_exp)(const void* x, int64_t count, float shift);
  // dx = slope * (exp(x - shift) - share)
  void (*exp_slope)(void* dx, const void* x, int64_t count, float shift, float slope, float share);
  void (*gelu_tanh)(void* y, const void* x, int64_t count);
  void (*gelu_tanh_backward)(void* dx, const void* dy, const void* x, int64_t count);

  MaxPool<uint8_t> max_pool_u8;
  MaxPool<int32_t> max_pool_i32;
  void (*average_pool)(const PoolPlane& plane, const void* x, void* y);
  void (*average_pool_backward)(const PoolPlane& plane, const void* dy, void* dx, float* workspace);
};

// Images in bf16 whose channels lie beside each other: `rows` places of `width` channels, a multiple of kLanes. What is
// summed over the rows is added to f32, so rows are few in a call; what belongs to a channel is an array of f32.
struct ChannelLoops {
  void (*sum)(float* sums, const uint16_t* x, int64_t rows, int64_t width);
  void (*sum_squares)(float* sums, const uint16_t* x, const float* mean, int64_t rows, int64_t width);
  // Of dy, and of dy * (x - mean).
  void (*sum_slopes)(float* sums, float* products, const uint16_t* dy, const uint16_t* x, const float* mean,
                     int64_t rows, int64_t width);
  // y = (x - mean) * scale + shift
  void (*affine)(uint16_t* y, const uint16_t* x, const float* mean, const float* scale, const float* shift,
                 int64_t rows, int64_t width);
  // dx = scale * (dy - level - (x - mean) * slope)
  void (*gradient)(uint16_t* dx, const uint16_t* dy, const uint16_t* x, const float* mean, const float* scale,
                   const float* level, const float* slope, int64_t rows, int64_t width);
};

// Winograd's algorithm for 3x3 convolutions: results in tiles of 4x4, each of a patch of 6x6, by 36 products where the
// direct one takes 144. Each transforms `count` squares side by side, a multiple of kLanes: element i of them is at
// i * line.
struct WinogradTransforms {
  using Transform = void (*)(const float* from, int64_t from_line, float* to, int64_t to_line, int64_t count);
  Transform patch;             // 6x6 of x to 36 factors
  Transform result;            // 36 sums to 4x4 of y
  Transform slope;             // 4x4 of dy to 36 factors
  Transform weights;           // 3x3 to 36 factors
  Transform weights_gradient;  // 36 sums to 3x3
};

struct Functions {
  LowPrecisionLines bf16;
  LowPrecisionLines f16;
  ElementLoops on_f32, on_bf16, on_f16;
  ChannelLoops channels;
  WinogradTransforms winograd;
  PackedProducts packed;

  void (*multiply)(const TileProduct& product);
  // [rows, columns] to [columns, rows].
  void (*transpose)(const float* from, int64_t from_row, float* to, int64_t to_row, int64_t rows, int64_t columns);

  // One row of y in all channels; the image is given from the first tap's row on. The bias may be null.
  void (*narrow_forward)(const NarrowRow& row, const float* image, const float* w, const float* bias, float* y);
  // Adds to dw what so many rows of dy give, few enough for sums in f32.
  void (*narrow_backward)(const NarrowRow& row, const float* image, const float* dy, int64_t rows, double* dw);

  float (*largest)(const void* x, int64_t count);  // in f32, as ElementLoops
  // x = exp(x - shift), and their sum.
  float (*exp_in_place)(float* x, int64_t count, float shift);
};

// For this machine.
const Functions& functions();

}  // namespace plimsoll::kernels::simd
