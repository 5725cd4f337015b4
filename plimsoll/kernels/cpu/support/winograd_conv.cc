#include "plimsoll/kernels/cpu/support/winograd_conv.h"

#include <algorithm>

#include "plimsoll/base/bytes.h"
#include "plimsoll/kernels/cpu/simd/simd.h"
#include "plimsoll/kernels/cpu/support/low_precision.h"
#include "plimsoll/kernels/cpu/support/low_precision_copy.h"
#include "plimsoll/kernels/cpu/support/parallel.h"
#include "plimsoll/kernels/cpu/support/vectorised.h"

namespace plimsoll::kernels {
namespace {

constexpr int64_t kTile = 4;      // results of a tile along each dimension
constexpr int64_t kPatch = 6;     // what they are made of
constexpr int64_t kFactors = 36;  // of a patch, a tile or 3x3 weights
constexpr int64_t kTaps = 9;
constexpr int64_t kRows = 32;        // output channels that a thread computes together
constexpr int64_t kInner = 256;      // terms of a product in one go, so that its operands stay in the cache
constexpr int64_t kMostTiles = 512;  // in a chunk
constexpr int64_t kFewestTiles = 32;
constexpr int64_t kKept = 256;  // output channels whose gradients are summed up at a time

// y = conv(x, w), or the same for the gradient of x: a convolution of dy with weights that are turned around.
struct Sizes {
  int64_t batch, in, out;
  int64_t height, width;  // of x
  int64_t rows, columns;  // of y
  int64_t top, left;      // padding

  int64_t tiles_across() const { return (columns + kTile - 1) / kTile; }
  int64_t tiles_down() const { return (rows + kTile - 1) / kTile; }
  int64_t tile_rows() const { return batch * tiles_down(); }
};

Sizes sizes_of(const Conv& c) {
  return {c.x[0], c.x[1], c.w[0], c.x[2], c.x[3], c.y[2], c.y[3], c.begin[0], c.begin[1]};
}

Sizes flipped(const Sizes& s) {
  return {s.batch, s.out, s.in, s.rows, s.columns, s.height, s.width, 2 - s.top, 2 - s.left};
}

// Whole rows of tiles that are computed together, over the whole batch one after the other.
struct Chunks {
  int64_t rows;   // of tiles, in one
  int64_t tiles;  // in one, up to a multiple of a vector

  Chunks(const Sizes& s, int64_t most)
      : rows(std::clamp<int64_t>(most / s.tiles_across(), 1, s.tile_rows())),
        tiles(align_up(rows * s.tiles_across(), simd::kLanes)) {}
};

// Calls f(first row of tiles, end) for each chunk.
template <class F>
void for_chunks(const Sizes& s, const Chunks& chunks, const F& f) {
  for (int64_t first = 0; first < s.tile_rows(); first += chunks.rows) {
    f(first, std::min(first + chunks.rows, s.tile_rows()));
  }
}

// A plane of one channel: rows `first` to first + kSize of it, from column `left` on, zero where there are none.
struct Plane {
  const WideInput& images;
  int64_t begin;
  int64_t height, width;

  // Elements from `first` on, as f32.
  void copy(int64_t first, int64_t count, float* to) const {
    const float* from = images.line(begin + first, count, to);
    if (from != to) std::copy_n(from, count, to);
  }
};

template <int64_t kSize>
void copy_lines(const Plane& plane, int64_t first, int64_t left, float* lines, int64_t line) {
  const int64_t begin = std::clamp<int64_t>(-left, 0, line);
  const int64_t end = std::clamp<int64_t>(plane.width - left, begin, line);
  for (int64_t i = 0; i < kSize; ++i, lines += line) {
    const int64_t row = first + i;
    if (row < 0 || row >= plane.height) {
      std::fill_n(lines, line, 0.0F);
      continue;
    }
    std::fill_n(lines, begin, 0.0F);
    plane.copy(row * plane.width + left + begin, end - begin, lines + begin);
    std::fill(lines + end, lines + line, 0.0F);
  }
}

// Element (i, j) of the squares of a row of tiles, each kTile after the one before.
template <int64_t kSize>
void take_apart(const float* lines, int64_t line, float* squares, int64_t step, int64_t count) {
  vectorised([=] {
    for (int64_t i = 0; i < kSize; ++i) {
      for (int64_t j = 0; j < kSize; ++j) {
        const float* from = lines + i * line + j;
        float* to = squares + (i * kSize + j) * step;
        for (int64_t x = 0; x < count; ++x) to[x] = from[x * kTile];
      }
    }
  });
}

// Of a plane.
struct Extent {
  int64_t height, width;
};

// The squares of kSize x kSize of one channel that a chunk of tiles sees, element by element.
template <int64_t kSize>
void gather(const Sizes& s, const WideInput& images, int64_t channels, int64_t channel, const Extent& shape,
            int64_t top, int64_t left, int64_t first, int64_t end, float* lines, float* squares, int64_t tiles) {
  const int64_t across = s.tiles_across();
  const int64_t line = across * kTile + kPatch;
  for (int64_t row = first; row < end; ++row) {
    const int64_t n = row / s.tiles_down();
    const Plane plane{images, (n * channels + channel) * shape.height * shape.width, shape.height, shape.width};
    copy_lines<kSize>(plane, row % s.tiles_down() * kTile - top, -left, lines, line);
    take_apart<kSize>(lines, line, squares + (row - first) * across, tiles, across);
  }
  const int64_t used = (end - first) * across;
  for (int64_t i = 0; i < kSize * kSize; ++i) std::fill(squares + i * tiles + used, squares + (i + 1) * tiles, 0.0F);
}

// `count` elements, `step` apart, as f32.
void copy_apart(const WideInput& from, int64_t first, int64_t step, int64_t count, float* to) {
  if (from.dtype == DType::f32) {
    const auto* x = reinterpret_cast<const float*>(from.data) + first;
    for (int64_t i = 0; i < count; ++i) to[i] = x[i * step];
    return;
  }
  const auto* x = reinterpret_cast<const uint16_t*>(from.data) + first;
  const auto upcast = from.dtype == DType::bf16 ? from_bf16 : from_f16;
  for (int64_t i = 0; i < count; ++i) to[i] = upcast(x[i * step]);
}

// What a thread has for itself: the squares of one channel, their lines, and its part of the products.
struct Own {
  int64_t lines, squares, part;  // floats

  Own(const Sizes& s, int64_t tiles, int64_t part_floats)
      : lines(align_up(kPatch * (s.tiles_across() * kTile + kPatch), 16)),
        squares(kFactors * std::max<int64_t>(tiles, align_up(std::max(s.in, s.out), 16))),
        part(align_up(part_floats, 16)) {}

  int64_t floats() const { return lines + squares + part; }
  float* lines_of(float* all, int thread) const { return all + thread * floats(); }
  float* squares_of(float* all, int thread) const { return lines_of(all, thread) + lines; }
  float* part_of(float* all, int thread) const { return squares_of(all, thread) + squares; }
};

// c[rows, columns] (+)= a[rows, inner] b[inner, columns], cut so that what is read again is in the cache.
void multiply_blocks(int64_t rows, int64_t columns, int64_t inner, const float* a, const float* b, float* c,
                     int64_t c_row, bool add) {
  for (int64_t k = 0; k < inner; k += kInner) {
    simd::functions().multiply({rows, columns, std::min(kInner, inner - k), a + k, inner, 1, b + k * columns, columns,
                                c, c_row, add || k > 0});
  }
}

// ---- forward, and the gradient of x ----

struct Forward {
  Sizes s;
  Chunks chunks;
  Own own;
  bool flips;  // the weights are [in, out, 3, 3] and turned around
  Epilogue epilogue;
  int threads;

  Forward(const Sizes& sizes, int64_t most_tiles, bool flips_weights, const Epilogue& after, int thread_count)
      : s(sizes),
        chunks(s, most_tiles),
        own(s, chunks.tiles, kRows * (s.in + chunks.tiles) * kFactors),
        flips(flips_weights),
        epilogue(after),
        threads(thread_count) {}

  int64_t factors() const { return kFactors * s.in * chunks.tiles; }  // floats of patches, for all threads
  int64_t scratch_bytes() const { return 4 * (factors() + threads * own.floats()); }

  void run(const WideInput& x, const WideInput& w, const WideInput& bias, const WideOutput& y, float* scratch) const {
    float* threads_own = scratch + factors();
    for_chunks(s, chunks, [&](int64_t first, int64_t end) {
      parallel(threads, s.in, 1, [&](int part, int64_t begin, int64_t stop) {
        for (int64_t channel = begin; channel < stop; ++channel) {
          transform_patches(x, channel, first, end, threads_own, part, scratch);
        }
      });
      parallel(threads, (s.out + kRows - 1) / kRows, 1, [&](int part, int64_t begin, int64_t stop) {
        for (int64_t block = begin; block < stop; ++block) {
          compute(w, bias, y, block * kRows, first, end, scratch, threads_own, part);
        }
      });
    });
  }

  // Of one channel, to [factor, channel, tile].
  void transform_patches(const WideInput& x, int64_t channel, int64_t first, int64_t end, float* all, int part,
                         float* patches) const {
    float* squares = own.squares_of(all, part);
    gather<kPatch>(s, x, s.in, channel, {s.height, s.width}, s.top, s.left, first, end, own.lines_of(all, part),
                   squares, chunks.tiles);
    simd::functions().winograd.patch(squares, chunks.tiles, patches + channel * chunks.tiles, s.in * chunks.tiles,
                                     chunks.tiles);
  }

  // Of one output channel, to [factor, row of the block, channel].
  void transform_weights(const WideInput& w, int64_t out, float* squares, float* factors_of_row, int64_t rows) const {
    const int64_t channels = s.in;
    const int64_t step = flips ? s.out * kTaps : kTaps;
    const int64_t from = flips ? out * kTaps : out * channels * kTaps;
    for (int64_t tap = 0; tap < kTaps; ++tap) {
      copy_apart(w, from + (flips ? kTaps - 1 - tap : tap), step, channels, squares + tap * channels);
    }
    simd::functions().winograd.weights(squares, channels, factors_of_row, rows * channels, channels);
  }

  void compute(const WideInput& w, const WideInput& bias, const WideOutput& y, int64_t first_out, int64_t first,
               int64_t end, const float* patches, float* all, int part) const {
    const int64_t rows = std::min(kRows, s.out - first_out);
    const int64_t tiles = chunks.tiles;
    float* squares = own.squares_of(all, part);
    float* weights = own.part_of(all, part);
    float* sums = weights + kFactors * kRows * s.in;
    for (int64_t r = 0; r < rows; ++r) transform_weights(w, first_out + r, squares, weights + r * s.in, rows);
    for (int64_t factor = 0; factor < kFactors; ++factor) {
      multiply_blocks(rows, tiles, s.in, weights + factor * rows * s.in, patches + factor * s.in * tiles,
                      sums + factor * rows * tiles, tiles, false);
    }
    for (int64_t r = 0; r < rows; ++r) {
      simd::functions().winograd.result(sums + r * tiles, rows * tiles, squares, tiles, tiles);
      float level = 0;
      if (bias.data != nullptr) copy_apart(bias, first_out + r, 1, 1, &level);
      for (int64_t row = first; row < end; ++row) {
        write_row(squares + (row - first) * s.tiles_across(), row, first_out + r, level, own.lines_of(all, part), y);
      }
    }
  }

  void write_row(const float* squares, int64_t row, int64_t channel, float level, float* lines,
                 const WideOutput& y) const {
    const int64_t n = row / s.tiles_down();
    const int64_t down = row % s.tiles_down() * kTile;
    const int64_t columns = s.columns;
    const float* line = lines;
    float* other = lines + s.tiles_across() * kTile;  // where y is not f32
    for (int64_t i = 0; i < kTile && down + i < s.rows; ++i) {
      put_together(squares + i * kTile * chunks.tiles, lines);
      const int64_t at = ((n * s.out + channel) * s.rows + down + i) * columns;
      float* to = y.line(at, other);
      if (epilogue.onto && to == other) {
        low_precision_lines(y.dtype).upcast(other, reinterpret_cast<const uint16_t*>(y.data) + at, columns);
      }
      const Epilogue after = epilogue;
      vectorised([=] {
        if (after.onto) {
          for (int64_t j = 0; j < columns; ++j) to[j] += line[j] + level;
        } else {
          for (int64_t j = 0; j < columns; ++j) to[j] = line[j] + level;
        }
        for (int64_t j = 0; after.relu && j < columns; ++j) to[j] = to[j] < 0 ? 0 : to[j];
      });
      y.keep(at, columns, to);
    }
  }

  void put_together(const float* squares, float* line) const {
    const int64_t step = chunks.tiles;
    const int64_t across = s.tiles_across();
    vectorised([=] {
      for (int64_t x = 0; x < across; ++x) {
        for (int64_t j = 0; j < kTile; ++j) line[x * kTile + j] = squares[j * step + x];
      }
    });
  }
};

// ---- the gradient of the weights ----

struct Weights {
  Sizes s;
  Chunks chunks;
  int64_t kept;  // output channels at a time
  Own own;
  int threads;

  Weights(const Sizes& sizes, int64_t most_tiles, int thread_count)
      : s(sizes),
        chunks(s, most_tiles),
        kept(std::min(kKept, s.out)),
        own(s, chunks.tiles, kFactors * std::max(kRows, simd::kLanes) * chunks.tiles),
        threads(thread_count) {}

  int64_t factors() const { return kFactors * s.in * chunks.tiles; }
  int64_t sums() const { return kFactors * kept * s.in; }
  int64_t scratch_bytes() const { return 4 * (factors() + sums() + threads * own.floats()); }

  void run(const WideInput& dy, const WideInput& x, const WideOutput& dw, float* scratch) const {
    float* all_sums = scratch + factors();
    float* threads_own = all_sums + sums();
    for (int64_t first_out = 0; first_out < s.out; first_out += kept) {
      const int64_t outs = std::min(kept, s.out - first_out);
      for_chunks(s, chunks, [&](int64_t first, int64_t end) {
        const bool is_only = first_out > 0 && end - first == s.tile_rows();  // the patches are there already
        parallel(threads, is_only ? 0 : s.in / simd::kLanes, 1, [&](int part, int64_t begin, int64_t stop) {
          for (int64_t group = begin; group < stop; ++group) {
            transform_patches(x, group * simd::kLanes, first, end, threads_own, part, scratch);
          }
        });
        parallel(threads, (outs + kRows - 1) / kRows, 1, [&](int part, int64_t begin, int64_t stop) {
          for (int64_t block = begin; block < stop; ++block) {
            add_products(dy, first_out + block * kRows, std::min(kRows, outs - block * kRows), first, end, scratch,
                         threads_own, part, all_sums + block * kRows * s.in, outs);
          }
        });
      });
      parallel(threads, outs, 1, [&](int part, int64_t begin, int64_t stop) {
        for (int64_t out = begin; out < stop; ++out) {
          write(all_sums + out * s.in, outs, own.squares_of(threads_own, part), dw, (first_out + out) * s.in * kTaps);
        }
      });
    }
  }

  // Of kLanes channels, to [factor, tile, channel].
  void transform_patches(const WideInput& x, int64_t first_channel, int64_t first, int64_t end, float* all, int part,
                         float* patches) const {
    const int64_t tiles = chunks.tiles;
    float* squares = own.squares_of(all, part);
    float* group = own.part_of(all, part);
    for (int64_t lane = 0; lane < simd::kLanes; ++lane) {
      gather<kPatch>(s, x, s.in, first_channel + lane, {s.height, s.width}, s.top, s.left, first, end,
                     own.lines_of(all, part), squares, tiles);
      simd::functions().winograd.patch(squares, tiles, group + lane * tiles, simd::kLanes * tiles, tiles);
    }
    for (int64_t factor = 0; factor < kFactors; ++factor) {
      simd::functions().transpose(group + factor * simd::kLanes * tiles, tiles,
                                  patches + factor * tiles * s.in + first_channel, s.in, simd::kLanes, tiles);
    }
  }

  // To sums [factor, output channel of those kept, channel].
  void add_products(const WideInput& dy, int64_t first_out, int64_t rows, int64_t first, int64_t end,
                    const float* patches, float* all, int part, float* sums_of_rows, int64_t outs) const {
    const int64_t tiles = chunks.tiles;
    float* squares = own.squares_of(all, part);
    float* slopes = own.part_of(all, part);
    for (int64_t r = 0; r < rows; ++r) {
      gather<kTile>(s, dy, s.out, first_out + r, {s.rows, s.columns}, 0, 0, first, end, own.lines_of(all, part),
                    squares, tiles);
      simd::functions().winograd.slope(squares, tiles, slopes + r * tiles, rows * tiles, tiles);
    }
    for (int64_t factor = 0; factor < kFactors; ++factor) {
      multiply_blocks(rows, s.in, tiles, slopes + factor * rows * tiles, patches + factor * tiles * s.in,
                      sums_of_rows + factor * outs * s.in, s.in, first > 0);
    }
  }

  // The weights of one output channel, from `at` on.
  void write(const float* sums_of_out, int64_t outs, float* squares, const WideOutput& dw, int64_t at) const {
    simd::functions().winograd.weights_gradient(sums_of_out, outs * s.in, squares, s.in, s.in);
    float* to = dw.line(at, squares + kTaps * s.in);
    for (int64_t tap = 0; tap < kTaps; ++tap) {
      for (int64_t channel = 0; channel < s.in; ++channel) to[channel * kTaps + tap] = squares[tap * s.in + channel];
    }
    dw.keep(at, s.in * kTaps, to);
  }
};

// The largest chunks that keep to the limit; the smallest when scratch counts more than speed.
template <class Make>
auto within(int64_t limit, const KernelCall& call, const Make& make) -> std::optional<decltype(make(int64_t{}))> {
  for (int64_t tiles = call.least_scratch ? kFewestTiles : kMostTiles; tiles >= kFewestTiles; tiles /= 2) {
    const auto made = make(tiles);
    if (made.scratch_bytes() <= limit) return made;
  }
  return std::nullopt;
}

bool can_flip(const Conv& c) {
  return std::all_of(c.begin.begin(), c.begin.end(), [](int64_t begin) { return begin >= 0 && begin <= 2; });
}

}  // namespace

std::optional<Kernel> winograd_forward(const Conv& conv, const KernelCall& call, const Epilogue& epilogue,
                                       int64_t limit) {
  const auto made =
      within(limit, call, [&](int64_t tiles) { return Forward(sizes_of(conv), tiles, false, epilogue, call.threads); });
  if (!made) return std::nullopt;
  const TensorDesc bias = call.arity() > 2 ? call.in(2) : TensorDesc{};
  return Kernel{made->scratch_bytes(),
                [=, forward = *made, biased = call.arity() > 2, x = call.in(0), w = call.in(1),
                 y = call.out()](const Memory& m) -> Task {
                  return [=, images = WideInput(x, m.inputs[0]), weights = WideInput(w, m.inputs[1]),
                          levels = WideInput(bias, biased ? m.inputs[2] : nullptr), to = WideOutput(y, m.outputs[0]),
                          scratch = m.scratch_at<float>(0)] { forward.run(images, weights, levels, to, scratch); };
                }};
}

std::optional<Kernel> winograd_backward_data(const Conv& conv, const KernelCall& call, int64_t limit) {
  if (!can_flip(conv)) return std::nullopt;
  const auto made = within(
      limit, call, [&](int64_t tiles) { return Forward(flipped(sizes_of(conv)), tiles, true, {}, call.threads); });
  if (!made) return std::nullopt;
  return Kernel{made->scratch_bytes(),
                [forward = *made, dy = call.in(0), w = call.in(1), dx = call.out()](const Memory& m) -> Task {
                  return [=, slopes = WideInput(dy, m.inputs[0]), weights = WideInput(w, m.inputs[1]),
                          to = WideOutput(dx, m.outputs[0]), scratch = m.scratch_at<float>(0)] {
                    forward.run(slopes, weights, WideInput(w, nullptr), to, scratch);
                  };
                }};
}

std::optional<Kernel> winograd_backward_weights(const Conv& conv, const KernelCall& call, int64_t limit) {
  const auto made = within(limit, call, [&](int64_t tiles) { return Weights(sizes_of(conv), tiles, call.threads); });
  if (!made) return std::nullopt;
  return Kernel{made->scratch_bytes(),
                [weights = *made, dy = call.in(0), x = call.in(1), dw = call.out()](const Memory& m) -> Task {
                  return [=, slopes = WideInput(dy, m.inputs[0]), images = WideInput(x, m.inputs[1]),
                          to = WideOutput(dw, m.outputs[0]),
                          scratch = m.scratch_at<float>(0)] { weights.run(slopes, images, to, scratch); };
                }};
}

}  // namespace plimsoll::kernels
