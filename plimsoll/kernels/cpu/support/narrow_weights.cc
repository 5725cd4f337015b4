#include "plimsoll/kernels/cpu/support/narrow_weights.h"

#include <algorithm>

#include "plimsoll/base/bytes.h"
#include "plimsoll/kernels/cpu/support/low_precision_copy.h"
#include "plimsoll/kernels/cpu/support/parallel.h"
#include "plimsoll/kernels/cpu/support/vectorised.h"
#include "plimsoll/kernels/cpu/tiles/pack.h"

namespace plimsoll::kernels {
namespace {

constexpr int64_t kMostChannels = 4;
constexpr int64_t kMostTaps = 256;
constexpr int64_t kPanel = 512;                    // places that are multiplied together
constexpr int64_t kLine = kPanel + tiles::kDepth;  // of taps; not a power of two, so that lines do not share cache sets

// A row for each tap of each channel.
int64_t rows_of(const WeightGradient& c) { return c.in * c.taps(); }

// What a thread has for itself, in bytes from the start of its part of scratch.
struct Panel {
  int64_t taps;   // padded to whole blocks
  int64_t phase;  // elements in one, see gather_row
  int64_t dy_offset, sums_offset, phases_offset, bytes;

  explicit Panel(const WeightGradient& c)
      : taps(align_up(rows_of(c), tiles::kBlock)),
        phase(kPanel + c.kernel_w),
        dy_offset(align_up(taps * kLine * 2, kAlignment)),
        sums_offset(dy_offset + align_up(kPanel * c.out * 2, kAlignment)),
        phases_offset(sums_offset + align_up(taps * c.out * 4, kAlignment)),
        bytes(phases_offset + align_up(std::min(c.stride_w, c.kernel_w) * phase * 2, kAlignment)) {}

  static uint16_t* x(std::byte* own) { return reinterpret_cast<uint16_t*>(own); }
  uint16_t* dy(std::byte* own) const { return reinterpret_cast<uint16_t*>(own + dy_offset); }
  float* sums(std::byte* own) const { return reinterpret_cast<float*>(own + sums_offset); }
  uint16_t* phases(std::byte* own) const { return reinterpret_cast<uint16_t*>(own + phases_offset); }
};

void copy_every_second(const uint16_t* from, int64_t count, uint16_t* to) {
  vectorised([=] {
    for (int64_t i = 0; i < count; ++i) to[i] = from[2 * i];
  });
}

// Elements first, first + step, .. of a line of `width`; zero outside of it.
void copy_strided(const uint16_t* line, int64_t width, int64_t first, int64_t step, int64_t count, uint16_t* to) {
  const int64_t begin = std::clamp<int64_t>((step - 1 - first) / step, 0, count);
  const int64_t end = std::clamp<int64_t>((width - first + step - 1) / step, begin, count);
  std::fill(to, to + begin, uint16_t{0});
  std::fill(to + end, to + count, uint16_t{0});
  const uint16_t* from = line + first + begin * step;
  if (step == 1) {
    std::copy_n(from, end - begin, to + begin);
  } else if (step == 2) {
    copy_every_second(from, end - begin, to + begin);
  } else {
    for (int64_t i = begin; i < end; ++i) to[i] = line[first + i * step];
  }
}

// Places [column, column + count) of one row of dy, as each tap finds them in x, into lines from `to` on. A line of x
// is first taken apart into phases, elements that are a stride apart: each tap has a part of one of them.
void gather_row(const WeightGradient& c, const uint16_t* image, int64_t row, int64_t column, int64_t count,
                std::byte* own, uint16_t* to) {
  const Panel panel(c);
  const int64_t step = c.stride_w;
  for (int64_t channel = 0; channel < c.in; ++channel) {
    for (int64_t ky = 0; ky < c.kernel_h; ++ky) {
      const int64_t y = row * c.stride_h + ky - c.top;
      const bool inside = y >= 0 && y < c.height;
      const uint16_t* line = image + (channel * c.height + (inside ? y : 0)) * c.width;
      for (int64_t first = 0; first < std::min(step, c.kernel_w); ++first) {
        copy_strided(line, inside ? c.width : 0, column * step + first - c.left, step, count + (c.kernel_w - 1) / step,
                     panel.phases(own) + first * panel.phase);
      }
      for (int64_t kx = 0; kx < c.kernel_w; ++kx, to += kLine) {
        std::copy_n(panel.phases(own) + kx % step * panel.phase + kx / step, count, to);
      }
    }
  }
}

// Places [first, first + count) of all samples, and zeros up to whole steps.
void gather(const WeightGradient& c, const uint16_t* x, int64_t first, int64_t count, std::byte* own) {
  uint16_t* to = Panel::x(own);
  const int64_t of_sample = c.rows * c.columns;
  for (int64_t done = 0; done < count;) {
    const int64_t place = first + done;
    const int64_t column = place % c.columns;
    const int64_t part = std::min(count - done, c.columns - column);
    const uint16_t* image = x + place / of_sample * c.in * c.height * c.width;
    gather_row(c, image, place % of_sample / c.columns, column, part, own, to + done);
    done += part;
  }
  for (int64_t tap = 0; tap < rows_of(c); ++tap) {
    std::fill(to + tap * kLine + count, to + tap * kLine + tiles::steps_of(count) * tiles::kDepth, uint16_t{0});
  }
}

// Adds to sums[taps, out] what the places make.
void add_places(const WeightGradient& c, const tiles::Tiles& units, const uint16_t* dy, const uint16_t* x,
                int64_t first, int64_t count, std::byte* own) {
  const Panel panel(c);
  gather(c, x, first, count, own);
  for (int64_t o = 0; o < c.out; o += tiles::kBlock) {
    uint16_t* packed = panel.dy(own) + o * kPanel;
    tiles::pack_rows(dy + first * c.out + o, c.out, count, packed);
    for (int64_t tap = 0; tap < panel.taps; tap += tiles::kBlock) {
      units.multiply({.a = Panel::x(own) + tap * kLine,
                      .a_row = kLine,
                      .b = packed,
                      .steps = tiles::steps_of(count),
                      .c = panel.sums(own) + tap * c.out + o,
                      .c_row = c.out,
                      .add = true});
    }
  }
}

// dw[out, taps] of the sums that the threads made.
void add_up(const WeightGradient& c, int parts, const std::byte* scratch, const WideOutput& dw) {
  const Panel panel(c);
  float workspace[kMostTaps];
  for (int64_t o = 0; o < c.out; ++o) {
    float* line = dw.line(o * rows_of(c), workspace);
    for (int64_t tap = 0; tap < rows_of(c); ++tap) {
      double sum = 0;
      for (int part = 0; part < parts; ++part) {
        const auto* own = reinterpret_cast<const float*>(scratch + part * panel.bytes + panel.sums_offset);
        sum += static_cast<double>(own[tap * c.out + o]);
      }
      line[tap] = static_cast<float>(sum);
    }
    dw.keep(o * rows_of(c), rows_of(c), line);
  }
}

}  // namespace

std::optional<WeightGradient> narrow_weights(const KernelCall& call) {
  const TensorDesc& x = call.in(1);
  const bool has_its_layout = x.dtype == DType::bf16 && x.is_contiguous() && !x.blocked;
  if (!call.amx_tiles || !call.in(0).channels_last || !has_its_layout) return std::nullopt;
  const auto c = weight_gradient(call);
  const bool suits = c && c->in <= kMostChannels && c->out % tiles::kBlock == 0 && rows_of(*c) <= kMostTaps &&
                     c->dilation_h == 1 && c->dilation_w == 1;
  return suits ? c : std::nullopt;
}

Kernel narrow_weights_kernel(const WeightGradient& c, const KernelCall& call) {
  const Panel panel(c);
  return {call.threads * panel.bytes, [=, threads = call.threads, result = call.out()](const Memory& m) -> Task {
            return [=, dy = m.in<uint16_t>(0), x = m.in<uint16_t>(1), dw = WideOutput(result, m.outputs[0]),
                    scratch = m.scratch] {
              parallel(threads, c.places(), kPanel, [&](int part, int64_t begin, int64_t end) {
                std::byte* own = scratch + part * panel.bytes;
                std::fill_n(own, panel.bytes, std::byte{0});
                const tiles::Tiles units;
                for (int64_t first = begin; first < end; first += kPanel) {
                  add_places(c, units, dy, x, first, std::min(kPanel, end - first), own);
                }
              });
              add_up(c, parts_of(threads, c.places(), kPanel), scratch, dw);
            };
          }};
}

}  // namespace plimsoll::kernels
