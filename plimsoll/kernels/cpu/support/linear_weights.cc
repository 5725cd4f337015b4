#include "plimsoll/kernels/cpu/support/linear_weights.h"

#include <algorithm>

#include "plimsoll/base/bytes.h"
#include "plimsoll/kernels/cpu/support/parallel.h"
#include "plimsoll/kernels/cpu/tiles/pack.h"

namespace plimsoll::kernels {
namespace {

using tiles::kBlock;

constexpr int64_t kPanel = 512;  // rows that are multiplied together: a block of x in the first cache
constexpr int64_t kLine =
    kPanel + tiles::kDepth;      // of dy turned; not a power of two, so that lines share no cache sets
constexpr int64_t kChunk = 128;  // outputs of a thread at a time
constexpr int64_t kFewestRows = 256;
constexpr int64_t kFewestFeatures = 128;

// In bytes from the start of the scratch: x packed, and then a part for each thread.
struct Layout {
  int64_t x_bytes, sums_offset, thread_bytes;

  explicit Layout(const LinearWeights& c)
      : x_bytes(c.in / kBlock * tiles::packed_size(c.rows) * 2),
        sums_offset(align_up(kChunk * kLine * 2, kAlignment)),
        thread_bytes(sums_offset + align_up(kChunk * c.in * 4, kAlignment)) {}
};

// Outputs [first, first + count), count a multiple of kBlock, at most kChunk.
void make_chunk(const LinearWeights& c, const tiles::Tiles& units, const uint16_t* dy, const uint16_t* packed_x,
                int64_t first, int64_t count, std::byte* own, uint16_t* dw) {
  auto* turned = reinterpret_cast<uint16_t*>(own);
  auto* sums = reinterpret_cast<float*>(own + Layout(c).sums_offset);
  for (int64_t row = 0; row < c.rows; row += kPanel) {
    const int64_t depth = std::min(kPanel, c.rows - row);
    for (int64_t o = 0; o < count; o += kBlock) {
      tiles::turn_rows(dy + row * c.out + first + o, c.out, depth, turned + o * kLine, kLine);
    }
    for (int64_t i = 0; i < c.in; i += kBlock) {
      const uint16_t* b = packed_x + i / kBlock * tiles::packed_size(c.rows) + row * kBlock;
      for (int64_t o = 0; o < count; o += kBlock) {
        units.multiply({.a = turned + o * kLine,
                        .a_row = kLine,
                        .b = b,
                        .steps = tiles::steps_of(depth),
                        .c = sums + o * c.in + i,
                        .c_row = c.in,
                        .add = row > 0});
      }
    }
  }
  tiles::functions().narrow(dw + first * c.in, sums, count * c.in);
}

}  // namespace

std::optional<LinearWeights> linear_weights(const Use& use) {
  const Tensor& dy = use.in(0);
  const Tensor& x = use.in(1);
  const bool halves = dy.dtype == DType::bf16 && x.dtype == DType::bf16 && use.out().dtype == DType::bf16;
  if (!use.matrix_units || !halves || !use.wants(0) || use.out().elements() == 0) return std::nullopt;
  const LinearWeights c{dy.elements() / use.out().shape[0], use.out().shape[0], use.out().shape[1]};
  const auto suits = [](int64_t features) { return features >= kFewestFeatures && features % kBlock == 0; };
  return c.rows >= kFewestRows && suits(c.in) && suits(c.out) ? std::optional(c) : std::nullopt;
}

Kernel linear_weights_kernel(const LinearWeights& c, const Use& use) {
  const Layout layout(c);
  return {layout.x_bytes + use.threads * layout.thread_bytes, [=, threads = use.threads](const Memory& m) -> Task {
            return [=, dy = m.in<uint16_t>(0), x = m.in<uint16_t>(1), dw = m.out<uint16_t>(), scratch = m.scratch] {
              auto* packed = reinterpret_cast<uint16_t*>(scratch);
              parallel(threads, c.in / kBlock, 1, [&](int, int64_t begin, int64_t end) {
                for (int64_t i = begin; i < end; ++i) {
                  tiles::pack_rows(x + i * kBlock, c.in, c.rows, packed + i * tiles::packed_size(c.rows));
                }
              });
              parallel(threads, c.out / kBlock, 1, [&](int part, int64_t begin, int64_t end) {
                const tiles::Tiles units;
                std::byte* own = scratch + layout.x_bytes + part * layout.thread_bytes;
                for (int64_t o = begin * kBlock; o < end * kBlock; o += kChunk) {
                  make_chunk(c, units, dy, packed, o, std::min(kChunk, end * kBlock - o), own, dw);
                }
              });
            };
          }};
}

}  // namespace plimsoll::kernels
