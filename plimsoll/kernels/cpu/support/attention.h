// What the attention kernels have in common: the sizes, the scale and the mask of one use, and its parts.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "plimsoll/kernels/kernel.h"

namespace plimsoll::kernels {

// The score of a key that a query does not see.
inline constexpr float kUnseen = -std::numeric_limits<float>::infinity();

// Broadcast to [batch, heads, queries, keys]: a stride is 0 along what it does not have.
struct AttentionMask {
  bool given = false;
  bool boolean = false;
  std::array<int64_t, 4> strides{};
};

struct AttentionSizes {
  int64_t batch, heads, queries, keys, dim, width;  // `heads` are those of one sample
  float scale;
  bool causal;
  int threads;
  AttentionMask mask;

  // q, k, v are the operands from `first` on; the mask, if any, is operand `mask_place`.
  AttentionSizes(const KernelCall& call, int first, int mask_place)
      : batch(call.in(first).shape[0]),
        heads(call.in(first).shape[1]),
        queries(call.in(first).shape[2]),
        keys(call.in(first + 1).shape[2]),
        dim(call.in(first).shape[3]),
        width(call.in(first + 2).shape[3]),
        causal(call.op.flag("causal")),
        threads(call.threads) {
    const double given = call.op.real("scale");
    scale = static_cast<float>(given != 0 ? given : 1 / std::sqrt(static_cast<double>(dim)));
    if (mask_place < call.arity()) set_mask(call.in(mask_place));
  }

  // Keys that the queries before `end` see.
  int64_t keys_seen(int64_t end) const { return causal ? std::min(keys, end) : keys; }

 private:
  void set_mask(const TensorDesc& tensor) {
    mask.given = true;
    mask.boolean = tensor.dtype == DType::boolean;
    for (int axis = 0; axis < tensor.shape.rank(); ++axis) {
      const auto place = static_cast<size_t>(axis + 4 - tensor.shape.rank());
      mask.strides[place] = tensor.shape[axis] == 1 ? 0 : tensor.stride(axis);
    }
  }
};

// [batch, heads, lines, columns] with columns together.
struct Heads {
  int64_t batch_stride, head_stride, line_stride;

  explicit Heads(const TensorDesc& t) : batch_stride(t.stride(0)), head_stride(t.stride(1)), line_stride(t.stride(2)) {}
  int64_t at(int64_t batch, int64_t head, int64_t line) const {
    return batch * batch_stride + head * head_stride + line * line_stride;
  }
};

// One block of queries of one head against one block of keys.
struct AttentionTile {
  int64_t batch, head;
  int64_t query, queries;  // first, and how many
  int64_t key, keys;
};

// What the backward pass reads and writes; dq, dk and dv are contiguous.
template <class Element>
struct AttentionGradients {
  const Element* dy;
  const Element* y;
  const float* lse;
  Element* dq;
  Element* dk;
  Element* dv;
  Heads dy_heads, y_heads;
};

void scale_row(float* x, int64_t count, float factor);

// With P the weights and S the scores: dS = P * (dP - sum(dY * Y)), in place of dP. `through` is that sum.
void score_gradient(float* dscores, const float* weights, int64_t count, float through, float scale);

// Hides keys that take no part and adds the mask; the queries' lines of scores are `line` apart.
void apply_mask(const AttentionSizes& a, const AttentionTile& t, const std::byte* mask, float* scores, int64_t line);

}  // namespace plimsoll::kernels
