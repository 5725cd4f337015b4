// Dropout draws its mask from the counter-based generator, forward and backward alike: nothing is stored.
#include <algorithm>

#include "plimsoll/kernels/cpu/support/low_precision_copy.h"
#include "plimsoll/kernels/cpu/support/parallel.h"
#include "plimsoll/kernels/cpu/support/vectorised.h"
#include "plimsoll/kernels/kernel.h"
#include "plimsoll/kernels/tiling.h"
#include "plimsoll/program/random.h"

namespace plimsoll::kernels {
namespace {

struct Drop {
  uint64_t stream;
  uint64_t first;      // of the draws: the element at 0 is this one
  uint64_t threshold;  // bits below are dropped
  float scale;
};

// Lanes of the generator that run side by side, so that the compiler makes vectors of them.
constexpr int kLanes = 16;

// The random words of blocks block .. block + kLanes - 1, four each, in order.
[[gnu::always_inline]] inline void draw(uint32_t* bits, uint64_t block, uint64_t stream, uint64_t seed) {
  uint32_t c0[kLanes], c1[kLanes], c2[kLanes], c3[kLanes];
  for (int lane = 0; lane < kLanes; ++lane) {
    const uint64_t at = block + static_cast<uint64_t>(lane);
    c0[lane] = static_cast<uint32_t>(at);
    c1[lane] = static_cast<uint32_t>(at >> 32);
    c2[lane] = static_cast<uint32_t>(stream);
    c3[lane] = static_cast<uint32_t>(stream >> 32);
  }
  auto key0 = static_cast<uint32_t>(seed);
  auto key1 = static_cast<uint32_t>(seed >> 32);
  for (int round = 0; round < 10; ++round) {
    for (int lane = 0; lane < kLanes; ++lane) {
      const uint64_t even = uint64_t{0xD2511F53} * c0[lane];
      const uint64_t odd = uint64_t{0xCD9E8D57} * c2[lane];
      c0[lane] = static_cast<uint32_t>(odd >> 32) ^ c1[lane] ^ key0;
      c1[lane] = static_cast<uint32_t>(odd);
      c2[lane] = static_cast<uint32_t>(even >> 32) ^ c3[lane] ^ key1;
      c3[lane] = static_cast<uint32_t>(even);
    }
    key0 += 0x9E3779B9;
    key1 += 0xBB67AE85;
  }
  for (int lane = 0; lane < kLanes; ++lane) {
    bits[4 * lane] = c0[lane];
    bits[4 * lane + 1] = c1[lane];
    bits[4 * lane + 2] = c2[lane];
    bits[4 * lane + 3] = c3[lane];
  }
}

// Elements [begin, end); whole groups of draws together, the rest one by one.
void drop(const Drop& d, uint64_t seed, const float* x, float* y, int64_t begin, int64_t end) {
  vectorised([=] {
    constexpr int64_t kGroup = 4 * kLanes;
    int64_t i = begin;
    const auto one = [&](int64_t at) {
      const bool kept = program::random_bits(seed, d.stream, d.first + static_cast<uint64_t>(at)) >= d.threshold;
      y[at] = kept ? x[at] * d.scale : 0;
    };
    for (; i < end && (d.first + static_cast<uint64_t>(i)) % 4 != 0; ++i) one(i);
    uint32_t bits[kGroup];
    for (; i + kGroup <= end; i += kGroup) {
      draw(bits, (d.first + static_cast<uint64_t>(i)) / 4, d.stream, seed);
      for (int64_t j = 0; j < kGroup; ++j) y[i + j] = bits[j] >= d.threshold ? x[i + j] * d.scale : 0;
    }
    for (; i < end; ++i) one(i);
  });
}

constexpr int64_t kLine = 2048;  // elements of f16 and bf16 that are f32 at a time

void drop_lines(const Drop& d, uint64_t seed, const WideInput& x, const WideOutput& y, int64_t begin, int64_t end) {
  float workspace[kLine];
  for (int64_t first = begin; first < end; first += kLine) {
    const int64_t count = std::min(kLine, end - first);
    Drop line = d;
    line.first += static_cast<uint64_t>(first);
    float* to = y.line(first, workspace);
    drop(line, seed, x.line(first, count, workspace), to, 0, count);
    y.keep(first, count, to);
  }
}

Kernel dropout(const KernelCall& call) {
  if (!is_low_precision(call.in(0).dtype)) call.require_f32(0);
  const double rate = call.op.real("rate");
  const Drop d{static_cast<uint64_t>(call.op.integer("stream")), static_cast<uint64_t>(call.op.integer("offset")),
               program::drop_threshold(rate), static_cast<float>(1 / (1 - rate))};
  const bool in_parts = call.in(1).elements() == 2;
  const int64_t per_sample = in_parts ? call.out().elements() / call.out().shape[0] : 0;
  return plain(
      [=, tensor = call.out(), count = call.out().elements(), threads = call.threads](const Memory& m) -> Task {
        return [=, x = WideInput(tensor, m.inputs[0]), seed = m.in<int64_t>(1), y = WideOutput(tensor, m.outputs[0])] {
          Drop part = d;
          if (in_parts) part.first += static_cast<uint64_t>(seed[1] * per_sample);
          parallel(threads, count, kGrain, [=](int, int64_t begin, int64_t end) {
            drop_lines(part, static_cast<uint64_t>(*seed), x, y, begin, end);
          });
        };
      });
}

}  // namespace

void register_dropout_cpu(KernelTable& table) {
  table.add("dropout", {dropout, contiguous_only, {}, nullptr, any_dtype});
}

}  // namespace plimsoll::kernels
