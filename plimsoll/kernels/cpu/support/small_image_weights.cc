#include "plimsoll/kernels/cpu/support/small_image_weights.h"

#include <algorithm>

#include "plimsoll/base/bytes.h"
#include "plimsoll/kernels/cpu/support/low_precision_copy.h"
#include "plimsoll/kernels/cpu/support/parallel.h"
#include "plimsoll/kernels/cpu/tiles/pack.h"

namespace plimsoll::kernels {
namespace {

using tiles::kBlock;

constexpr int64_t kMostPlaces = 4096;
constexpr int64_t kPanel =
    800;  // places that are packed together, so that what all taps find in them stays in the cache
constexpr int64_t kFewestChannels = 64;
constexpr int64_t kMostTaps = 9;

// In bytes from the start of the scratch: what all threads have, and then a part for each.
struct Layout {
  int64_t line;  // of dy turned: places, whole steps; not a power of two, so that lines do not share cache sets
  int64_t zeros_offset, shared_bytes;
  int64_t sums_offset, dw_offset, rows_offset, thread_bytes;

  explicit Layout(const WeightGradient& c)
      : line(tiles::steps_of(c.places()) * tiles::kDepth + tiles::kDepth),
        zeros_offset(align_up(c.out * line * 2, kAlignment)),
        shared_bytes(zeros_offset + align_up(c.in * 2, kAlignment)),
        sums_offset(c.taps() * tiles::packed_size(kPanel) * 2),
        dw_offset(sums_offset + c.out * c.taps() * kBlock * 4),
        rows_offset(dw_offset + align_up(kBlock * c.taps() * 4, kAlignment)),
        thread_bytes(rows_offset + align_up(kPanel * static_cast<int64_t>(sizeof(void*)), kAlignment)) {}
};

struct Pointers {
  const uint16_t* dy;
  const uint16_t* x;
  WideOutput dw;
  std::byte* scratch;
};

// Where the rows of x are that a tap meets in places [first, end).
void find_rows(const WeightGradient& c, const uint16_t* x, const uint16_t* zeros, int64_t tap, int64_t first,
               int64_t end, const uint16_t** rows) {
  const int64_t down = tap / c.kernel_w * c.dilation_h - c.top;
  const int64_t right = tap % c.kernel_w * c.dilation_w - c.left;
  for (int64_t place = first; place < end; ++place) {
    const int64_t row = place / c.columns;  // of all samples
    const int64_t y = row % c.rows * c.stride_h + down;
    const int64_t column = place % c.columns * c.stride_w + right;
    const bool inside = y >= 0 && y < c.height && column >= 0 && column < c.width;
    *rows++ = inside ? x + ((row / c.rows * c.height + y) * c.width + column) * c.in : zeros;
  }
}

// A block of input channels against all output channels.
class Block {
 public:
  Block(const WeightGradient& c, const Pointers& p, int part)
      : c_(c), p_(p), layout_(c), own_(p.scratch + layout_.shared_bytes + part * layout_.thread_bytes) {}

  void run(const tiles::Tiles& units, int64_t first_in) {
    for (int64_t first = 0; first < c_.places(); first += kPanel) add_panel(units, first_in, first);
    for (int64_t out = 0; out < c_.out; out += kBlock) write(out, first_in);
  }

 private:
  uint16_t* packed(int64_t tap) const { return reinterpret_cast<uint16_t*>(own_) + tap * tiles::packed_size(kPanel); }
  // [out, in] of a block of each.
  float* sums(int64_t first_out, int64_t tap) const {
    return reinterpret_cast<float*>(own_ + layout_.sums_offset) + (first_out * c_.taps() + tap * kBlock) * kBlock;
  }
  const uint16_t** rows() const { return reinterpret_cast<const uint16_t**>(own_ + layout_.rows_offset); }

  // Places from `first` on, for all output channels.
  void add_panel(const tiles::Tiles& units, int64_t first_in, int64_t first) {
    const auto* zeros = reinterpret_cast<const uint16_t*>(p_.scratch + layout_.zeros_offset);
    const int64_t end = std::min(first + kPanel, c_.places());
    for (int64_t tap = 0; tap < c_.taps(); ++tap) {
      find_rows(c_, p_.x, zeros, tap, first, end, rows());
      tiles::pack_rows(rows(), first_in, end - first, packed(tap));
    }
    for (int64_t out = 0; out < c_.out; out += kBlock) {
      for (int64_t tap = 0; tap < c_.taps(); ++tap) {
        units.multiply({.a = reinterpret_cast<const uint16_t*>(p_.scratch) + out * layout_.line + first,
                        .a_row = layout_.line,
                        .b = packed(tap),
                        .steps = tiles::steps_of(end - first),
                        .c = sums(out, tap),
                        .c_row = kBlock,
                        .add = first > 0});
      }
    }
  }

  // dw[out, in, taps] of the sums, which are by taps.
  void write(int64_t first_out, int64_t first_in) const {
    auto* workspace = reinterpret_cast<float*>(own_ + layout_.dw_offset);
    for (int64_t o = 0; o < kBlock; ++o) {
      const int64_t place = ((first_out + o) * c_.in + first_in) * c_.taps();
      float* line = p_.dw.line(place, workspace);
      for (int64_t tap = 0; tap < c_.taps(); ++tap) {
        const float* from = sums(first_out, tap) + o * kBlock;
        for (int64_t i = 0; i < kBlock; ++i) line[i * c_.taps() + tap] = from[i];
      }
      p_.dw.keep(place, kBlock * c_.taps(), line);
    }
  }

  const WeightGradient& c_;
  const Pointers& p_;
  Layout layout_;
  std::byte* own_;
};

void run(const WeightGradient& c, const Pointers& p, int threads) {
  const Layout layout(c);
  std::fill_n(p.scratch + layout.zeros_offset, c.in * 2, std::byte{0});
  auto* transposed = reinterpret_cast<uint16_t*>(p.scratch);
  parallel(threads, c.out / kBlock, 1, [&](int, int64_t begin, int64_t end) {
    for (int64_t block = begin; block < end; ++block) {
      tiles::transpose_rows(p.dy + block * kBlock, c.out, c.places(), transposed + block * kBlock * layout.line,
                            layout.line);
    }
  });
  parallel(threads, c.in / kBlock, 1, [&](int part, int64_t begin, int64_t end) {
    const tiles::Tiles units;
    Block block(c, p, part);
    for (int64_t i = begin; i < end; ++i) block.run(units, i * kBlock);
  });
}

}  // namespace

std::optional<WeightGradient> small_image_weights(const KernelCall& call) {
  if (!call.amx_tiles || !call.in(0).channels_last || !call.in(1).channels_last) return std::nullopt;
  const auto c = weight_gradient(call);
  const auto suits = [](int64_t channels) { return channels >= kFewestChannels && channels % kBlock == 0; };
  const bool small = c && c->places() > 0 && c->places() <= kMostPlaces && c->taps() <= kMostTaps;
  return small && suits(c->in) && suits(c->out) ? c : std::nullopt;
}

Kernel small_image_weights_kernel(const WeightGradient& c, const KernelCall& call) {
  const Layout layout(c);
  return {layout.shared_bytes + call.threads * layout.thread_bytes,
          [=, threads = call.threads, result = call.out()](const Memory& m) -> Task {
            return [=, p = Pointers{m.in<uint16_t>(0), m.in<uint16_t>(1), WideOutput(result, m.outputs[0]),
                                    m.scratch}] { run(c, p, threads); };
          }};
}

}  // namespace plimsoll::kernels
