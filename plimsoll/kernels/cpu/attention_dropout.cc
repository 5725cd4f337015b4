// Attention whose weights are dropped, query by query: a thread's scratch is one line of scores. The draws are those of
// the dropout op on the matrix of weights, drawn again in the backward pass.
#include <cmath>

#include "plimsoll/base/bytes.h"
#include "plimsoll/kernels/cpu/support/attention.h"
#include "plimsoll/kernels/cpu/support/parallel.h"
#include "plimsoll/kernels/kernel.h"
#include "plimsoll/program/random.h"

namespace plimsoll::kernels {
namespace {

// Operands lie in row-major order: q [heads, queries, dim], k [heads, keys, dim], v [heads, keys, width], where `heads`
// are those of all samples.
struct Attention : AttentionSizes {
  uint64_t stream, offset, threshold;
  float kept_scale;

  // q, k, v stand from `first` on, the seed at `tail`, the mask, if any, after it.
  Attention(const KernelCall& call, int first, int tail)
      : AttentionSizes(call, first, tail + 1),
        stream(static_cast<uint64_t>(call.op.integer("stream"))),
        offset(static_cast<uint64_t>(call.op.integer("offset"))),
        threshold(program::drop_threshold(call.op.real("rate"))),
        kept_scale(static_cast<float>(1 / (1 - call.op.real("rate")))) {
    call.require_f32(first);
  }

  int64_t all_heads() const { return batch * heads; }
  int64_t grain() const { return kGrain / (keys * (dim + width) + 1) + 1; }
  int64_t line_bytes() const { return align_up(keys * 4, kAlignment); }
  int64_t mask_at(int64_t head, int64_t query, int64_t key) const {
    const auto& s = mask.strides;
    return head / heads * s[0] + head % heads * s[1] + query * s[2] + key * s[3];
  }
  // What dropout multiplies a weight with.
  float kept(uint64_t seed, int64_t head, int64_t query, int64_t key) const {
    const auto place = static_cast<uint64_t>((head * queries + query) * keys + key);
    return program::random_bits(seed, stream, offset + place) < threshold ? 0 : kept_scale;
  }
};

struct Pointers {
  const float* q;
  const float* k;
  const float* v;
  const std::byte* mask;  // nullptr: none
  uint64_t seed;
};

float dot(const float* a, const float* b, int64_t count) {
  float sum = 0;
  for (int64_t i = 0; i < count; ++i) sum += a[i] * b[i];
  return sum;
}

void add_scaled(float* y, const float* x, float factor, int64_t count) {
  for (int64_t i = 0; i < count; ++i) y[i] += factor * x[i];
}

float score(const Attention& a, const Pointers& p, int64_t head, int64_t query, int64_t key) {
  if (a.causal && key > query) return kUnseen;
  const float product =
      a.scale * dot(p.q + (head * a.queries + query) * a.dim, p.k + (head * a.keys + key) * a.dim, a.dim);
  if (p.mask == nullptr) return product;
  const int64_t at = a.mask_at(head, query, key);
  if (!a.mask.boolean) return product + reinterpret_cast<const float*>(p.mask)[at];
  return p.mask[at] == std::byte{0} ? kUnseen : product;
}

// The scores of a query as weights that sum to 1; the logarithm of their sum. All zero for one that sees no key.
float weights_of(const Attention& a, const Pointers& p, int64_t head, int64_t query, float* line) {
  float most = kUnseen;
  for (int64_t j = 0; j < a.keys; ++j) {
    line[j] = score(a, p, head, query, j);
    most = line[j] > most ? line[j] : most;
  }
  float sum = 0;
  for (int64_t j = 0; j < a.keys; ++j) {
    line[j] = most == kUnseen ? 0 : std::exp(line[j] - most);
    sum += line[j];
  }
  for (int64_t j = 0; j < a.keys && sum > 0; ++j) line[j] /= sum;
  return most == kUnseen ? kUnseen : most + std::log(sum);
}

Kernel forward(const KernelCall& call) {
  const Attention a(call, 0, 3);
  const auto bind = [a, produces = call.produces(1)](const Memory& m) -> Task {
    return [=, y = m.out<float>(), lse = produces ? m.out<float>(1) : nullptr] {
      const Pointers p{m.in<float>(0), m.in<float>(1), m.in<float>(2), a.mask.given ? m.in<std::byte>(4) : nullptr,
                       static_cast<uint64_t>(*m.in<int64_t>(3))};
      parallel(a.threads, a.all_heads() * a.queries, a.grain(), [&](int part, int64_t begin, int64_t end) {
        auto* line = m.scratch_at<float>(part * a.line_bytes());
        for (int64_t row = begin; row < end; ++row) {
          const int64_t head = row / a.queries;
          const int64_t query = row % a.queries;
          const float sum = weights_of(a, p, head, query, line);
          if (lse != nullptr) lse[row] = sum;
          float* to = y + row * a.width;
          for (int64_t d = 0; d < a.width; ++d) to[d] = 0;
          for (int64_t j = 0; j < a.keys; ++j) {
            add_scaled(to, p.v + (head * a.keys + j) * a.width, line[j] * a.kept(p.seed, head, query, j), a.width);
          }
        }
      });
    };
  };
  return {a.threads * a.line_bytes(), bind};
}

struct Slopes {
  const float* dy;
  const float* y;
  const float* lse;
  float* dq;
  float* dk;
  float* dv;
  float* dmask;  // nullptr: not asked for
};

// With P the weights, D the draws and S the scores: dV = (P D)' dY, dP = D (dY V'), dS = P (dP - sum(dY Y)),
// dQ = scale dS K, dK = scale dS' Q.
void query_gradient(const Attention& a, const Pointers& p, const Slopes& s, int64_t head, int64_t query) {
  const int64_t row = head * a.queries + query;
  if (s.lse[row] == kUnseen) return;
  const float* dy = s.dy + row * a.width;
  const float through_sum = dot(dy, s.y + row * a.width, a.width);
  for (int64_t j = 0; j < a.keys; ++j) {
    const float weight = std::exp(score(a, p, head, query, j) - s.lse[row]);
    if (weight == 0) continue;
    const int64_t key = head * a.keys + j;
    const float kept = a.kept(p.seed, head, query, j);
    const float dweight = kept * dot(dy, p.v + key * a.width, a.width);
    const float dscore = weight * (dweight - through_sum);
    add_scaled(s.dv + key * a.width, dy, weight * kept, a.width);
    add_scaled(s.dq + row * a.dim, p.k + key * a.dim, a.scale * dscore, a.dim);
    add_scaled(s.dk + key * a.dim, p.q + row * a.dim, a.scale * dscore, a.dim);
    if (s.dmask != nullptr) s.dmask[a.mask_at(head, query, j)] += dscore;
  }
}

// Heads share no results but the mask's, whose gradient is made on one thread.
Kernel backward(const KernelCall& call) {
  const Attention a(call, 1, 6);
  const bool adds_mask = call.produces(3) && a.mask.given && !a.mask.boolean;
  std::array<int64_t, 4> sizes{};
  for (int k = 0; k < 4; ++k) sizes[static_cast<size_t>(k)] = call.produces(k) ? call.out(k).elements() : 0;
  return plain([=](const Memory& m) -> Task {
    return [=] {
      const Pointers p{m.in<float>(1), m.in<float>(2), m.in<float>(3), a.mask.given ? m.in<std::byte>(7) : nullptr,
                       static_cast<uint64_t>(*m.in<int64_t>(6))};
      const Slopes s{m.in<float>(0),
                     m.in<float>(4),
                     m.in<float>(5),
                     m.out<float>(0),
                     m.out<float>(1),
                     m.out<float>(2),
                     adds_mask ? m.out<float>(3) : nullptr};
      for (int k = 0; k < 4; ++k) {
        for (int64_t i = 0; i < sizes[static_cast<size_t>(k)]; ++i) m.out<float>(k)[i] = 0;
      }
      const int threads = adds_mask ? 1 : a.threads;
      parallel(threads, a.all_heads(), a.grain() / (a.queries + 1) + 1, [&](int, int64_t begin, int64_t end) {
        for (int64_t head = begin; head < end; ++head) {
          for (int64_t query = 0; query < a.queries; ++query) query_gradient(a, p, s, head, query);
        }
      });
    };
  });
}

}  // namespace

void register_attention_dropout_cpu(KernelTable& table) {
  table.add("attention_dropout", {forward});
  table.add("attention_dropout_backward", {backward});
}

}  // namespace plimsoll::kernels
