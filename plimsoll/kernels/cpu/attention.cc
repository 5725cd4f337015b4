// Attention by tiles: a block of queries against one block of keys after the other, with the softmax kept up to date as
// the blocks come in. Scores are never in memory as a whole; the backward pass computes them again from the log of
// their sums. The scratch of a thread is a few tiles.
#include "plimsoll/kernels/cpu/support/attention.h"

#include <algorithm>
#include <cmath>

#include "plimsoll/base/bytes.h"
#include "plimsoll/kernels/cpu/support/attention_units.h"
#include "plimsoll/kernels/cpu/support/gemm.h"
#include "plimsoll/kernels/cpu/support/parallel.h"
#include "plimsoll/kernels/kernel.h"
#include "plimsoll/kernels/tiling.h"

namespace plimsoll::kernels {
namespace {

constexpr int64_t kQueries = 48;  // in a tile
constexpr int64_t kKeys = 64;

struct Attention : AttentionSizes {
  Heads q, k, v;

  Attention(const KernelCall& call, int first, int mask_place)
      : AttentionSizes(call, first, mask_place), q(call.in(first)), k(call.in(first + 1)), v(call.in(first + 2)) {}

  int64_t blocks() const { return (queries + kQueries - 1) / kQueries; }
};

struct Operands {
  const float* q;
  const float* k;
  const float* v;
  const std::byte* mask;
};

// scale * q k' and the mask, into [queries, kKeys]. `turned` has room for [dim, kKeys].
void score(const Attention& a, const Operands& o, const AttentionTile& t, float* transposed, float* scores) {
  transpose_tile(o.k + a.k.at(t.batch, t.head, t.key), a.k.line_stride, transposed, kKeys, t.keys, a.dim);
  multiply({.rows = t.queries,
            .columns = t.keys,
            .inner = a.dim,
            .a = o.q + a.q.at(t.batch, t.head, t.query),
            .a_row = a.q.line_stride,
            .a_step = 1,
            .b = transposed,
            .b_row = kKeys,
            .c = scores,
            .c_row = kKeys,
            .add = false});
  for (int64_t i = 0; i < t.queries; ++i) scale_row(scores + i * kKeys, t.keys, a.scale);
  apply_mask(a, t, o.mask, scores, kKeys);
}

// ---- forward ----

struct ForwardScratch {
  int64_t transposed = 0, scores = 0, largest = 0, sums = 0, floats = 0;

  explicit ForwardScratch(const Attention& a) {
    scores = a.dim * kKeys;
    largest = scores + kQueries * kKeys;
    sums = largest + kQueries;
    floats = align_up(sums + kQueries, kAlignment / 4);
  }
};

// Brings the block's rows of y, its largest scores and its sums up to date with one more block of keys.
void take_in(const Attention& a, const Operands& o, const AttentionTile& t, const ForwardScratch& s, float* own,
             float* y) {
  float* scores = own + s.scores;
  score(a, o, t, own, scores);
  for (int64_t i = 0; i < t.queries; ++i) {
    float* row = scores + i * kKeys;
    float& largest = own[s.largest + i];
    float& sum = own[s.sums + i];
    const float now = std::max(largest, simd::functions().largest(row, t.keys));
    if (now == kUnseen) {
      std::fill(row, row + t.keys, 0.0F);
      continue;
    }
    const float keep = largest == kUnseen ? 0 : std::exp(largest - now);
    sum = sum * keep + simd::functions().exp_in_place(row, t.keys, now);
    scale_row(y + i * a.width, a.width, keep);
    largest = now;
  }
  multiply({.rows = t.queries,
            .columns = a.width,
            .inner = t.keys,
            .a = scores,
            .a_row = kKeys,
            .a_step = 1,
            .b = o.v + a.v.at(t.batch, t.head, t.key),
            .b_row = a.v.line_stride,
            .c = y,
            .c_row = a.width,
            .add = true});
}

void forward_block(const Attention& a, const Operands& o, int64_t block, const ForwardScratch& s, float* own, float* y,
                   float* lse) {
  const int64_t head = block / a.blocks();
  AttentionTile t{head / a.heads, head % a.heads, block % a.blocks() * kQueries, 0, 0, 0};
  t.queries = std::min(kQueries, a.queries - t.query);
  float* rows = y + (head * a.queries + t.query) * a.width;
  std::fill(rows, rows + t.queries * a.width, 0.0F);
  std::fill(own + s.largest, own + s.largest + kQueries, kUnseen);
  std::fill(own + s.sums, own + s.sums + kQueries, 0.0F);
  const int64_t seen = a.keys_seen(t.query + t.queries);
  for (t.key = 0; t.key < seen; t.key += kKeys) {
    t.keys = std::min(kKeys, seen - t.key);
    take_in(a, o, t, s, own, rows);
  }
  for (int64_t i = 0; i < t.queries; ++i) {
    const float largest = own[s.largest + i];
    const float sum = own[s.sums + i];
    if (largest != kUnseen) scale_row(rows + i * a.width, a.width, 1 / sum);
    if (lse != nullptr) lse[head * a.queries + t.query + i] = largest == kUnseen ? kUnseen : largest + std::log(sum);
  }
}

Kernel forward(const KernelCall& call) {
  if (attends_by_units(call, 0)) return units_forward(call);
  call.require_f32(0);
  const Attention a(call, 0, 3);
  const ForwardScratch s(a);
  return {a.threads * s.floats * 4, [=, wants_lse = call.produces(1)](const Memory& m) -> Task {
            const Operands o{m.in<float>(0), m.in<float>(1), m.in<float>(2), m.in<std::byte>(3)};
            return [=, y = m.out<float>(), lse = wants_lse ? m.out<float>(1) : nullptr, own = m.scratch_at<float>(0)] {
              parallel(a.threads, a.batch * a.heads * a.blocks(), 1, [&](int part, int64_t begin, int64_t end) {
                for (int64_t block = begin; block < end; ++block) {
                  forward_block(a, o, block, s, own + part * s.floats, y, lse);
                }
              });
            };
          }};
}

// ---- backward ----

using Gradients = AttentionGradients<float>;

struct BackwardScratch {
  int64_t transposed = 0, scores = 0, dscores = 0, through = 0, floats = 0;

  explicit BackwardScratch(const Attention& a) {
    scores = std::max(a.dim, a.width) * kKeys;
    dscores = scores + kQueries * kKeys;
    through = dscores + kQueries * kKeys;
    floats = align_up(through + kQueries, kAlignment / 4);
  }
};

// dV += P' dY, dQ += dS K, dK += dS' Q for one tile.
void backward_tile(const Attention& a, const Operands& o, const Gradients& g, const AttentionTile& t,
                   const BackwardScratch& s, float* own) {
  const int64_t head = t.batch * a.heads + t.head;
  float* weights = own + s.scores;
  float* dscores = own + s.dscores;
  const float* dy = g.dy + g.dy_heads.at(t.batch, t.head, t.query);
  const float* v = o.v + a.v.at(t.batch, t.head, t.key);
  score(a, o, t, own, weights);
  for (int64_t i = 0; i < t.queries; ++i) {
    const float lse = g.lse[head * a.queries + t.query + i];
    float* row = weights + i * kKeys;
    if (lse == kUnseen) {
      std::fill(row, row + t.keys, 0.0F);
    } else {
      simd::functions().exp_in_place(row, t.keys, lse);
    }
  }
  transpose_tile(v, a.v.line_stride, own, kKeys, t.keys, a.width);
  multiply({t.queries, t.keys, a.width, dy, g.dy_heads.line_stride, 1, own, kKeys, dscores, kKeys, false});
  for (int64_t i = 0; i < t.queries; ++i) {
    score_gradient(dscores + i * kKeys, weights + i * kKeys, t.keys, own[s.through + i], a.scale);
  }
  float* dv = g.dv + (head * a.keys + t.key) * a.width;
  float* dk = g.dk + (head * a.keys + t.key) * a.dim;
  float* dq = g.dq + (head * a.queries + t.query) * a.dim;
  multiply({t.keys, a.width, t.queries, weights, 1, kKeys, dy, g.dy_heads.line_stride, dv, a.width, true});
  multiply({t.queries, a.dim, t.keys, dscores, kKeys, 1, o.k + a.k.at(t.batch, t.head, t.key), a.k.line_stride, dq,
            a.dim, true});
  multiply({t.keys, a.dim, t.queries, dscores, 1, kKeys, o.q + a.q.at(t.batch, t.head, t.query), a.q.line_stride, dk,
            a.dim, true});
}

void backward_head(const Attention& a, const Operands& o, const Gradients& g, int64_t head, const BackwardScratch& s,
                   float* own) {
  std::fill(g.dq + head * a.queries * a.dim, g.dq + (head + 1) * a.queries * a.dim, 0.0F);
  std::fill(g.dk + head * a.keys * a.dim, g.dk + (head + 1) * a.keys * a.dim, 0.0F);
  std::fill(g.dv + head * a.keys * a.width, g.dv + (head + 1) * a.keys * a.width, 0.0F);
  AttentionTile t{head / a.heads, head % a.heads, 0, 0, 0, 0};
  for (t.query = 0; t.query < a.queries; t.query += kQueries) {
    t.queries = std::min(kQueries, a.queries - t.query);
    for (int64_t i = 0; i < t.queries; ++i) {
      const float* dy = g.dy + g.dy_heads.at(t.batch, t.head, t.query + i);
      const float* y = g.y + g.y_heads.at(t.batch, t.head, t.query + i);
      float through = 0;
      for (int64_t d = 0; d < a.width; ++d) through += dy[d] * y[d];
      own[s.through + i] = through;
    }
    const int64_t seen = a.keys_seen(t.query + t.queries);
    for (t.key = 0; t.key < seen; t.key += kKeys) {
      t.keys = std::min(kKeys, seen - t.key);
      backward_tile(a, o, g, t, s, own);
    }
  }
}

Kernel backward(const KernelCall& call) {
  if (call.produces(3)) call.unsupported("the CPU has no gradient of a mask");
  if (attends_by_units(call, 1)) return units_backward(call);
  call.require_f32(1);
  const Attention a(call, 1, 6);
  const BackwardScratch s(a);
  const Heads dy_heads(call.in(0));
  const Heads y_heads(call.in(4));
  return {a.threads * s.floats * 4, [=](const Memory& m) -> Task {
            const Operands o{m.in<float>(1), m.in<float>(2), m.in<float>(3), m.in<std::byte>(6)};
            const Gradients g{m.in<float>(0),  m.in<float>(4),  m.in<float>(5), m.out<float>(0),
                              m.out<float>(1), m.out<float>(2), dy_heads,       y_heads};
            return [=, own = m.scratch_at<float>(0)] {
              parallel(a.threads, a.batch * a.heads, 1, [&](int part, int64_t begin, int64_t end) {
                for (int64_t head = begin; head < end; ++head) {
                  backward_head(a, o, g, head, s, own + part * s.floats);
                }
              });
            };
          }};
}

// Lines may lie anywhere, but must be in one piece. Masks may lie in any way.
bool whole_lines(const TensorDesc& operand) {
  const int last = operand.shape.rank() - 1;
  return operand.is_contiguous() || (last == 3 && operand.stride(last) == 1);
}

// Samples of the batch. A mask may be for all of them.
Tiling by_samples(const KernelCall& call, std::vector<int> inputs, std::vector<int> outputs, int mask) {
  const auto has_samples = [&](const TensorDesc& t) {
    return t.shape.rank() == 4 && t.shape[0] == call.in(0).shape[0];
  };
  if (mask < call.arity() && has_samples(call.in(mask))) inputs.push_back(mask);
  return by_rows(call, std::move(inputs), std::move(outputs));
}

}  // namespace

void register_attention_cpu(KernelTable& table) {
  table.add("attention", {forward,
                          whole_lines,
                          {},
                          [](const KernelCall& call) {
                            return by_samples(call, {0, 1, 2}, {0, 1}, 3);
                          },
                          [](const KernelCall& call) { return attends_by_units(call, 0); }});
  table.add("attention_backward", {backward,
                                   whole_lines,
                                   {},
                                   [](const KernelCall& call) {
                                     return by_samples(call, {0, 1, 2, 3, 4, 5}, {0, 1, 2}, 6);
                                   },
                                   [](const KernelCall& call) { return attends_by_units(call, 1); }});
}

}  // namespace plimsoll::kernels
