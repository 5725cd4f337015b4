#include "plimsoll/kernels/cpu/support/attention_units.h"

#include <bit>
#include <cmath>

#include "plimsoll/base/bytes.h"
#include "plimsoll/kernels/cpu/simd/simd.h"
#include "plimsoll/kernels/cpu/support/attention.h"
#include "plimsoll/kernels/cpu/support/parallel.h"
#include "plimsoll/kernels/cpu/support/vectorised.h"
#include "plimsoll/kernels/cpu/tiles/pack.h"

namespace plimsoll::kernels {
namespace {

using tiles::blocks_of;
using tiles::kBlock;
using tiles::packed_size;
using tiles::steps_of;

constexpr int64_t kQueries = 64;           // in a tile
constexpr int64_t kKeys = 256;             // many, so that a line of scores is worth the calls that go over it
constexpr int64_t kLine = kKeys + kBlock;  // from line to line; not a power of two, which would share cache sets

struct Attention : AttentionSizes {
  Heads q, k, v;

  Attention(const KernelCall& call, int first, int mask_place)
      : AttentionSizes(call, first, mask_place), q(call.in(first)), k(call.in(first + 1)), v(call.in(first + 2)) {}

  int64_t all_heads() const { return batch * heads; }
  int64_t tiles_of_queries() const { return (queries + kQueries - 1) / kQueries; }
  int64_t padded_keys() const { return align_up(keys, kBlock); }
};

struct Operands {
  const uint16_t* q;
  const uint16_t* k;
  const uint16_t* v;
  const std::byte* mask;

  Operands(const Memory& m, int first, int mask_place)
      : q(m.in<uint16_t>(first)),
        k(m.in<uint16_t>(first + 1)),
        v(m.in<uint16_t>(first + 2)),
        mask(m.in<std::byte>(mask_place)) {}
};

// Hands out parts of a thread's scratch; with nothing to hand out it counts what is wanted.
class Workspace {
 public:
  explicit Workspace(std::byte* start) : start_(start) {}

  template <class T>
  T* take(int64_t count) {
    std::byte* part = start_ == nullptr ? nullptr : start_ + taken_;
    taken_ += align_up(count * static_cast<int64_t>(sizeof(T)), kAlignment);
    return reinterpret_cast<T*>(part);
  }
  int64_t taken() const { return taken_; }

 private:
  std::byte* start_;
  int64_t taken_ = 0;
};

// ---- products of tiles ----

// A packed operand of several blocks of columns.
struct Packed {
  uint16_t* data;
  int64_t depth;  // rows that there is room for

  Packed(Workspace& workspace, int64_t rows, int64_t columns)
      : data(workspace.take<uint16_t>(packed_size(rows) * blocks_of(columns))), depth(rows) {}
  // Block `block` of columns, from row `row` on, which is a multiple of tiles::kDepth.
  uint16_t* at(int64_t block, int64_t row = 0) const { return data + block * packed_size(depth) + row * kBlock; }
};

// c[rows, columns] (+)= a b, all of them of whole blocks; `row` and `column` are where b begins.
struct HeadProduct {
  const uint16_t* a;
  int64_t a_row;
  const Packed& b;
  int64_t row, column;
  float* c;
  int64_t c_row;
  int64_t rows, columns, depth;
  bool add;
};

void multiply(const tiles::Tiles& units, const HeadProduct& p) {
  for (int64_t j = 0; j < blocks_of(p.columns); ++j) {
    for (int64_t i = 0; i < blocks_of(p.rows); ++i) {
      units.multiply({.a = p.a + i * kBlock * p.a_row,
                      .a_row = p.a_row,
                      .b = p.b.at(p.column / kBlock + j, p.row),
                      .steps = steps_of(p.depth),
                      .c = p.c + i * kBlock * p.c_row + j * kBlock,
                      .c_row = p.c_row,
                      .add = p.add});
    }
  }
}

// b[columns of lines, lines]: lines become columns.
void pack_lines(const uint16_t* lines, int64_t line, int64_t count, int64_t depth, const Packed& to) {
  for (int64_t first = 0; first < count; first += kBlock) {
    tiles::pack_lines(lines + first * line, line, std::min(kBlock, count - first), depth, to.at(first / kBlock));
  }
}

// b[lines, columns of lines]: lines are its rows.
void pack_rows(const uint16_t* lines, int64_t line, int64_t count, int64_t columns, const Packed& to) {
  for (int64_t first = 0; first < columns; first += kBlock) {
    tiles::pack_rows(lines + first, line, count, to.at(first / kBlock));
  }
}

// Lines of `count` numbers as bf16; whole blocks and steps of them, with zeros.
void downcast_tile(const float* from, int64_t lines, int64_t count, uint16_t* to, int64_t line) {
  const auto downcast = tiles::functions().downcast;
  const int64_t padded = steps_of(count) * tiles::kDepth;
  for (int64_t i = 0; i < blocks_of(lines) * kBlock; ++i, from += line, to += line) {
    const int64_t kept = i < lines ? count : 0;
    downcast(to, from, kept);
    std::fill(to + kept, to + padded, uint16_t{0});
  }
}

// ---- scores ----

// The keys of a head, and one tile of queries against them.
struct Scores {
  Packed keys;        // lines as columns
  uint16_t* queries;  // [kQueries, dim]
  float* scores;      // [kQueries, kLine]

  Scores(Workspace& workspace, const Attention& a)
      : keys(workspace, a.dim, a.padded_keys()),
        queries(workspace.take<uint16_t>(kQueries * a.dim)),
        scores(workspace.take<float>(kQueries * kLine)) {}

  void load_head(const Attention& a, const Operands& o, const AttentionTile& t) const {
    pack_lines(o.k + a.k.at(t.batch, t.head, 0), a.k.line_stride, a.keys, a.dim, keys);
  }
  void load_queries(const Attention& a, const Operands& o, const AttentionTile& t) const {
    tiles::pad_rows(o.q + a.q.at(t.batch, t.head, t.query), a.q.line_stride, t.queries, a.dim, queries, kQueries,
                    a.dim);
  }
  // scale * q k' and the mask.
  void compute(const tiles::Tiles& units, const Attention& a, const Operands& o, const AttentionTile& t) const {
    multiply(units, {queries, a.dim, keys, 0, t.key, scores, kLine, t.queries, t.keys, a.dim, false});
    for (int64_t i = 0; i < t.queries; ++i) scale_row(scores + i * kLine, t.keys, a.scale);
    apply_mask(a, t, o.mask, scores, kLine);
  }
};

AttentionTile first_tile(const Attention& a, int64_t head) { return {head / a.heads, head % a.heads, 0, 0, 0, 0}; }

// Calls f for each tile of keys that the tile's queries see.
template <class F>
void for_keys(const Attention& a, AttentionTile t, const F& f) {
  const int64_t seen = a.keys_seen(t.query + t.queries);
  for (; t.key < seen; t.key += kKeys) {
    t.keys = std::min(kKeys, seen - t.key);
    f(t);
  }
}

// ---- forward ----

struct Forward {
  Scores scores;
  Packed values;      // lines as rows
  uint16_t* weights;  // [kQueries, kLine]
  float* sums;        // of weights and values: [kQueries, width]
  float* largest;     // of each query's scores
  float* totals;      // and of their exponentials

  Forward(Workspace workspace, const Attention& a, int64_t* bytes = nullptr)
      : scores(workspace, a),
        values(workspace, a.padded_keys(), a.width),
        weights(workspace.take<uint16_t>(kQueries * kLine)),
        sums(workspace.take<float>(kQueries * a.width)),
        largest(workspace.take<float>(kQueries)),
        totals(workspace.take<float>(kQueries)) {
    if (bytes != nullptr) *bytes = workspace.taken();
  }

  // Brings the sums up to date with one more tile of keys.
  void take_in(const tiles::Tiles& units, const Attention& a, const Operands& o, const AttentionTile& t) const {
    scores.compute(units, a, o, t);
    for (int64_t i = 0; i < t.queries; ++i) {
      float* row = scores.scores + i * kLine;
      const float now = std::max(largest[i], simd::functions().largest(row, t.keys));
      if (now == kUnseen) {
        std::fill(row, row + t.keys, 0.0F);
        continue;
      }
      const float keep = largest[i] == kUnseen ? 0 : std::exp(largest[i] - now);
      totals[i] = totals[i] * keep + simd::functions().exp_in_place(row, t.keys, now);
      scale_row(sums + i * a.width, a.width, keep);
      largest[i] = now;
    }
    downcast_tile(scores.scores, t.queries, t.keys, weights, kLine);
    multiply(units, {weights, kLine, values, t.key, 0, sums, a.width, t.queries, a.width, t.keys, true});
  }

  void finish(const Attention& a, int64_t lines, uint16_t* y, float* lse) const {
    for (int64_t i = 0; i < lines; ++i) {
      const bool seen = largest[i] != kUnseen;
      if (seen) scale_row(sums + i * a.width, a.width, 1 / totals[i]);
      tiles::functions().downcast(y + i * a.width, sums + i * a.width, a.width);
      if (lse != nullptr) lse[i] = seen ? largest[i] + std::log(totals[i]) : kUnseen;
    }
  }
};

// Some tiles of queries, numbered over all heads.
void forward_tiles(const Attention& a, const Operands& o, const Forward& f, int64_t begin, int64_t end, uint16_t* y,
                   float* lse) {
  const tiles::Tiles units;
  for (int64_t block = begin; block < end; ++block) {
    const int64_t head = block / a.tiles_of_queries();
    AttentionTile t = first_tile(a, head);
    t.query = block % a.tiles_of_queries() * kQueries;
    t.queries = std::min(kQueries, a.queries - t.query);
    if (block == begin || t.query == 0) {
      f.scores.load_head(a, o, t);
      pack_rows(o.v + a.v.at(t.batch, t.head, 0), a.v.line_stride, a.keys, a.width, f.values);
    }
    f.scores.load_queries(a, o, t);
    std::fill_n(f.sums, kQueries * a.width, 0.0F);
    std::fill_n(f.largest, kQueries, kUnseen);
    std::fill_n(f.totals, kQueries, 0.0F);
    for_keys(a, t, [&](const AttentionTile& tile) { f.take_in(units, a, o, tile); });
    const int64_t line = head * a.queries + t.query;
    f.finish(a, t.queries, y + line * a.width, lse == nullptr ? nullptr : lse + line);
  }
}

// ---- backward ----

using Gradients = AttentionGradients<uint16_t>;

float dot(const uint16_t* a, const uint16_t* b, int64_t count) {
  return vectorised([=] {
    float sum = 0;
#pragma omp simd reduction(+ : sum)
    for (int64_t i = 0; i < count; ++i) {
      sum += std::bit_cast<float>(uint32_t{a[i]} << 16) * std::bit_cast<float>(uint32_t{b[i]} << 16);
    }
    return sum;
  });
}

// kQueries lines become columns.
void turn(const uint16_t* lines, int64_t length, uint16_t* to) {
  for (int64_t first = 0; first < length; first += kBlock) {
    tiles::transpose_rows(lines + first, length, kQueries, to + first * kQueries, kQueries);
  }
}

// dK and dV are made transposed, [dim, keys] and [width, keys]: so the weights and their gradients are right operands,
// which are packed at little cost, and only q and dy are turned.
struct Backward {
  Scores scores;
  Packed keys, values;  // keys as rows, values' lines as columns
  uint16_t *dy, *transposed_dy,
      *transposed_queries;  // of a tile: [kQueries, width], [width, kQueries], [dim, kQueries]
  float* dscores;           // [kQueries, kLine]
  uint16_t* downcast;       // scores or their gradients, [kQueries, kLine]
  Packed packed;            // the same
  float* through;           // of each query
  int64_t line;             // of dk and dv
  float *dq, *dk, *dv;      // [kQueries, dim], and for all keys [dim, line], [width, line]
  float* workspace;         // for turning them

  Backward(Workspace space, const Attention& a, int64_t* bytes = nullptr)
      : scores(space, a),
        keys(space, a.padded_keys(), a.dim),
        values(space, a.width, a.padded_keys()),
        dy(space.take<uint16_t>(kQueries * a.width)),
        transposed_dy(space.take<uint16_t>(kQueries * a.width)),
        transposed_queries(space.take<uint16_t>(kQueries * a.dim)),
        dscores(space.take<float>(kQueries * kLine)),
        downcast(space.take<uint16_t>(kQueries * kLine)),
        packed(space, kQueries, kKeys),
        through(space.take<float>(kQueries)),
        line(a.padded_keys() + kBlock),
        dq(space.take<float>(kQueries * a.dim)),
        dk(space.take<float>(line * a.dim)),
        dv(space.take<float>(line * a.width)),
        workspace(space.take<float>(kQueries * std::max(a.dim, a.width))) {
    if (bytes != nullptr) *bytes = space.taken();
  }

  void load_head(const Attention& a, const Operands& o, const AttentionTile& t) const {
    scores.load_head(a, o, t);
    pack_rows(o.k + a.k.at(t.batch, t.head, 0), a.k.line_stride, a.keys, a.dim, keys);
    pack_lines(o.v + a.v.at(t.batch, t.head, 0), a.v.line_stride, a.keys, a.width, values);
    std::fill_n(dk, line * a.dim, 0.0F);
    std::fill_n(dv, line * a.width, 0.0F);
  }

  void load_queries(const Attention& a, const Operands& o, const Gradients& g, const AttentionTile& t) const {
    scores.load_queries(a, o, t);
    turn(scores.queries, a.dim, transposed_queries);
    const uint16_t* given = g.dy + g.dy_heads.at(t.batch, t.head, t.query);
    tiles::pad_rows(given, g.dy_heads.line_stride, t.queries, a.width, dy, kQueries, a.width);
    turn(dy, a.width, transposed_dy);
    for (int64_t i = 0; i < t.queries; ++i) {
      through[i] = dot(dy + i * a.width, g.y + g.y_heads.at(t.batch, t.head, t.query + i), a.width);
    }
    std::fill_n(dq, kQueries * a.dim, 0.0F);
  }

  // sums[columns, keys] += lines' tile, with lines' [columns, queries] and the tile [queries, keys].
  void add_product(const tiles::Tiles& units, const AttentionTile& t, const uint16_t* transposed_lines,
                   const float* tile, float* sums, int64_t columns) const {
    downcast_tile(tile, t.queries, t.keys, downcast, kLine);
    pack_rows(downcast, kLine, t.queries, t.keys, packed);
    multiply(units, {transposed_lines, kQueries, packed, 0, 0, sums + t.key, line, columns, t.keys, t.queries, true});
  }

  // dV += P' dY, dK += dS' Q, dQ += dS K for one tile.
  void take_in(const tiles::Tiles& units, const Attention& a, const Operands& o, const float* lse,
               const AttentionTile& t) const {
    scores.compute(units, a, o, t);
    float* weights = scores.scores;
    for (int64_t i = 0; i < t.queries; ++i) {
      if (lse[i] == kUnseen) {
        std::fill_n(weights + i * kLine, t.keys, 0.0F);
      } else {
        simd::functions().exp_in_place(weights + i * kLine, t.keys, lse[i]);
      }
    }
    add_product(units, t, transposed_dy, weights, dv, a.width);
    multiply(units, {dy, a.width, values, 0, t.key, dscores, kLine, t.queries, t.keys, a.width, false});
    for (int64_t i = 0; i < t.queries; ++i) {
      score_gradient(dscores + i * kLine, weights + i * kLine, t.keys, through[i], a.scale);
    }
    add_product(units, t, transposed_queries, dscores, dk, a.dim);
    multiply(units, {downcast, kLine, keys, t.key, 0, dq, a.dim, t.queries, a.dim, t.keys, true});
  }

  // Sums [columns, line] as lines of so many columns, a tile of keys at a time.
  void write_keys(const Attention& a, const float* sums, int64_t columns, uint16_t* to) const {
    for (int64_t key = 0; key < a.keys; key += kQueries) {
      const int64_t count = std::min(kQueries, a.keys - key);
      simd::functions().transpose(sums + key, line, workspace, columns, columns, count);
      tiles::functions().downcast(to + key * columns, workspace, count * columns);
    }
  }
};

void backward_head(const Attention& a, const Operands& o, const Gradients& g, const tiles::Tiles& units,
                   const Backward& b, int64_t head) {
  AttentionTile t = first_tile(a, head);
  b.load_head(a, o, t);
  for (; t.query < a.queries; t.query += kQueries) {
    t.queries = std::min(kQueries, a.queries - t.query);
    b.load_queries(a, o, g, t);
    const int64_t line = head * a.queries + t.query;
    for_keys(a, t, [&](const AttentionTile& tile) { b.take_in(units, a, o, g.lse + line, tile); });
    tiles::functions().downcast(g.dq + line * a.dim, b.dq, t.queries * a.dim);
  }
  b.write_keys(a, b.dk, a.dim, g.dk + head * a.keys * a.dim);
  b.write_keys(a, b.dv, a.width, g.dv + head * a.keys * a.width);
}

}  // namespace

bool attends_by_units(const KernelCall& call, int first) {
  const TensorDesc& q = call.in(first);
  const TensorDesc& v = call.in(first + 2);
  const int mask = first == 0 ? 3 : 6;
  if (!call.amx_tiles || q.dtype != DType::bf16 || q.elements() == 0 || v.elements() == 0) return false;
  if (mask < call.arity() && call.in(mask).dtype != DType::boolean) return false;
  const auto even_lines = [&](int i) { return call.in(i).stride(2) % 2 == 0; };  // pairs are moved together
  return q.shape[3] % tiles::kDepth == 0 && v.shape[3] % tiles::kDepth == 0 && even_lines(first + 1) &&
         even_lines(first + 2);
}

Kernel units_forward(const KernelCall& call) {
  const Attention a(call, 0, 3);
  int64_t each = 0;
  Forward(Workspace(nullptr), a, &each);
  return {a.threads * each, [=, wants_lse = call.produces(1)](const Memory& m) -> Task {
            return [=, o = Operands(m, 0, 3), y = m.out<uint16_t>(), lse = wants_lse ? m.out<float>(1) : nullptr,
                    scratch = m.scratch] {
              parallel(a.threads, a.all_heads() * a.tiles_of_queries(), 1, [&](int part, int64_t begin, int64_t end) {
                forward_tiles(a, o, Forward(Workspace(scratch + part * each), a), begin, end, y, lse);
              });
            };
          }};
}

Kernel units_backward(const KernelCall& call) {
  const Attention a(call, 1, 6);
  int64_t each = 0;
  Backward(Workspace(nullptr), a, &each);
  return {a.threads * each, [=, dy_heads = Heads(call.in(0)), y_heads = Heads(call.in(4))](const Memory& m) -> Task {
            const Gradients g{m.in<uint16_t>(0),  m.in<uint16_t>(4),  m.in<float>(5), m.out<uint16_t>(0),
                              m.out<uint16_t>(1), m.out<uint16_t>(2), dy_heads,       y_heads};
            return [=, o = Operands(m, 1, 6), scratch = m.scratch] {
              parallel(a.threads, a.all_heads(), 1, [&](int part, int64_t begin, int64_t end) {
                const Backward b(Workspace(scratch + part * each), a);
                const tiles::Tiles units;
                for (int64_t head = begin; head < end; ++head) backward_head(a, o, g, units, b, head);
              });
            };
          }};
}

}  // namespace plimsoll::kernels
