// What the attention kernels have in common: the sizes, the scale and the mask of one use.
#pragma once

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
  AttentionSizes(const Use& use, int first, int mask_place)
      : batch(use.in(first).shape[0]),
        heads(use.in(first).shape[1]),
        queries(use.in(first).shape[2]),
        keys(use.in(first + 1).shape[2]),
        dim(use.in(first).shape[3]),
        width(use.in(first + 2).shape[3]),
        causal(use.call.flag("causal")),
        threads(use.threads) {
    use.require_f32(first);
    const double given = use.call.real("scale");
    scale = static_cast<float>(given != 0 ? given : 1 / std::sqrt(static_cast<double>(dim)));
    if (mask_place < use.arity()) set_mask(use.in(mask_place));
  }

 private:
  void set_mask(const Tensor& tensor) {
    mask.given = true;
    mask.boolean = tensor.dtype == DType::boolean;
    for (int axis = 0; axis < tensor.shape.rank(); ++axis) {
      const auto place = static_cast<size_t>(axis + 4 - tensor.shape.rank());
      mask.strides[place] = tensor.shape[axis] == 1 ? 0 : tensor.stride(axis);
    }
  }
};

}  // namespace plimsoll::kernels
