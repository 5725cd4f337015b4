// Updates whose state is held in codes of 8 bits: a block at a time, each made f32, updated and made codes again in
// memory of a block. Threads are cut at blocks, and chances are drawn by the place of an element, so the bits do not
// depend on how many threads there are.
#include <algorithm>
#include <cfloat>
#include <cmath>

#include "plimsoll/kernels/cpu/support/low_precision_copy.h"
#include "plimsoll/kernels/cpu/support/parallel.h"
#include "plimsoll/kernels/cpu/support/updates.h"
#include "plimsoll/kernels/cpu/support/vectorised.h"
#include "plimsoll/kernels/tiling.h"
#include "plimsoll/program/ops/state_code.h"

namespace plimsoll::kernels {
namespace {

using program::kStateBlock;
using Block = float[kStateBlock];

void read_signed(const uint8_t* codes, float scale, float* x, int64_t count) {
  vectorised([=] {
#pragma omp simd
    for (int64_t i = 0; i < count; ++i) x[i] = scale * program::signed_share(codes[i]);
  });
}

void read_unsigned(const uint8_t* codes, float scale, float* x, int64_t count) {
  vectorised([=] {
#pragma omp simd
    for (int64_t i = 0; i < count; ++i) x[i] = scale * program::unsigned_share(codes[i]);
  });
}

float largest(const float* x, int64_t count) {
  return vectorised([=] {
    float most = 0;
#pragma omp simd reduction(max : most)
    for (int64_t i = 0; i < count; ++i) most = std::max(most, std::abs(x[i]));
    return most;
  });
}

// What makes shares of elements; 0 where the scale has no reciprocal, and the elements are as good as nothing.
float inverse(float scale) { return scale >= FLT_MIN ? 1 / scale : 0; }

void write_signed(const float* x, float to_share, uint32_t chance, uint8_t* codes, int64_t count) {
  vectorised([=] {
#pragma omp simd
    for (int64_t i = 0; i < count; ++i) {
      const uint32_t bits = program::scrambled(chance + static_cast<uint32_t>(i));
      codes[i] = program::signed_code(x[i] * to_share, program::signed_chance(bits));
    }
  });
}

void write_unsigned(const float* x, float to_share, uint32_t chance, uint8_t* codes, int64_t count) {
  vectorised([=] {
#pragma omp simd
    for (int64_t i = 0; i < count; ++i) {
      const uint32_t bits = program::scrambled(chance + static_cast<uint32_t>(i));
      codes[i] = program::unsigned_code(x[i] * to_share, program::unsigned_chance(bits));
    }
  });
}

// Elements [first, first + count) of a parameter.
struct Span {
  int64_t first;
  int64_t count;
};

// One state of a parameter; `at` is a block of it.
struct QuantizedState {
  uint8_t* codes;
  float* scales;
  bool is_signed;

  void read(Span at, float* x) const {
    const auto decode = is_signed ? read_signed : read_unsigned;
    decode(codes + at.first, scales[at.first / kStateBlock], x, at.count);
  }
  void write(Span at, uint32_t chances, const float* x) const {
    float& scale = scales[at.first / kStateBlock];
    scale = largest(x, at.count);
    const auto encode = is_signed ? write_signed : write_unsigned;
    encode(x, inverse(scale), chances + static_cast<uint32_t>(at.first), codes + at.first, at.count);
  }
};

// The state whose codes are result k.
QuantizedState state_at(const Memory& m, int k, bool is_signed) {
  return {m.out<uint8_t>(k), m.out<float>(k + 1), is_signed};
}

// Runs an update block by block: `step` is called with a span, its weights and its gradient.
struct Blocks {
  TensorDesc w;
  int threads;

  template <class Step>
  void run(const Memory& m, const Step& step) const {
    const WideInput old_w(w, m.inputs[0]);
    const WideInput dw(w, m.inputs[1]);
    const WideOutput new_w(w, m.outputs[0]);
    const int64_t count = w.elements();
    parallel(threads, (count + kStateBlock - 1) / kStateBlock, kGrain / kStateBlock, [&](int, int64_t i, int64_t end) {
      Block workspace;
      Block workspace_of_dw;
      for (; i < end; ++i) {
        const Span at{i * kStateBlock, std::min(kStateBlock, count - i * kStateBlock)};
        old_w.line(at.first, at.count, workspace);
        float* line = new_w.line(at.first, workspace);
        step(at, line, dw.line(at.first, at.count, workspace_of_dw));
        new_w.keep(at.first, at.count, line);
      }
    });
  }
};

// Checks what all share; `step` is the place of the counter, after which come the rate and perhaps the scale.
Blocks blocks_of(const KernelCall& call, int step) {
  if (call.in(step).dtype != DType::i64) call.unsupported("the step counter must be i64");
  for (int i = step + 1; i < call.arity(); ++i) call.require_f32(i);
  if (call.in(0).dtype == DType::f64) call.unsupported("f32, f16 and bf16");
  return {call.in(0), call.threads};
}

Kernel momentum_8bit(const KernelCall& call) {
  return plain([blocks = blocks_of(call, 4), update = momentum_of(call)](const Memory& m) -> Task {
    return [=, velocity = state_at(m, 1, true), step = m.in<int64_t>(4),
            scalars = UpdateScalars{m.in<float>(5), m.in<float>(6)}] {
      if (scalars.skip()) return;
      const Momentum now = update.now(scalars);
      const uint32_t chances = program::first_chance(*step);
      blocks.run(m, [&](Span at, float* w, const float* dw) {
        Block v;
        velocity.read(at, v);
        apply(now, w, v, dw, at.count);
        velocity.write(at, chances, v);
      });
    };
  });
}

Kernel adam_8bit(const KernelCall& call, bool decoupled) {
  return plain([blocks = blocks_of(call, 6), update = adam_of(call, decoupled)](const Memory& m) -> Task {
    return [=, mean = state_at(m, 1, true), square = state_at(m, 3, false), step = m.in<int64_t>(6),
            scalars = UpdateScalars{m.in<float>(7), m.in<float>(8)}] {
      if (scalars.skip()) return;
      const Adam now = update.now(scalars, *step);
      const uint32_t chances = program::first_chance(*step);
      blocks.run(m, [&](Span at, float* w, const float* dw) {
        Block first;
        Block second;
        mean.read(at, first);
        square.read(at, second);
        apply(now, w, first, second, dw, at.count);
        mean.write(at, chances, first);
        square.write(at, chances, second);
      });
    };
  });
}

bool low_precision_only_in_weights(const KernelCall& call) { return low_precision_only_in(call, {0, 1}, {0}); }

void add(KernelTable& table, const char* op, std::function<Kernel(const KernelCall&)> prepare) {
  table.add(op, {std::move(prepare), contiguous_only, {}, nullptr, low_precision_only_in_weights});
}

}  // namespace

void register_state_8bit_cpu(KernelTable& table) {
  add(table, "momentum_8bit", momentum_8bit);
  add(table, "adam_8bit", [](const KernelCall& call) { return adam_8bit(call, false); });
  add(table, "adamw_8bit", [](const KernelCall& call) { return adam_8bit(call, true); });
}

}  // namespace plimsoll::kernels
