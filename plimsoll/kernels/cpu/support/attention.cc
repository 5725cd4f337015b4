#include "plimsoll/kernels/cpu/support/attention.h"

#include "plimsoll/kernels/cpu/support/vectorised.h"

namespace plimsoll::kernels {

void scale_row(float* x, int64_t count, float factor) {
  vectorised([=] {
#pragma omp simd
    for (int64_t i = 0; i < count; ++i) x[i] *= factor;
  });
}

void score_gradient(float* dscores, const float* weights, int64_t count, float through, float scale) {
  vectorised([=] {
#pragma omp simd
    for (int64_t j = 0; j < count; ++j) dscores[j] = weights[j] * (dscores[j] - through) * scale;
  });
}

void apply_mask(const AttentionSizes& a, const AttentionTile& t, const std::byte* mask, float* scores, int64_t line) {
  for (int64_t i = 0; a.causal && i < t.queries; ++i) {
    for (int64_t j = std::max<int64_t>(0, t.query + i + 1 - t.key); j < t.keys; ++j) scores[i * line + j] = kUnseen;
  }
  if (!a.mask.given) return;
  const auto& s = a.mask.strides;
  for (int64_t i = 0; i < t.queries; ++i) {
    const int64_t first = t.batch * s[0] + t.head * s[1] + (t.query + i) * s[2] + t.key * s[3];
    for (int64_t j = 0; j < t.keys; ++j) {
      float& score = scores[i * line + j];
      if (a.mask.boolean) {
        if (reinterpret_cast<const uint8_t*>(mask)[first + j * s[3]] == 0) score = kUnseen;
      } else {
        score += reinterpret_cast<const float*>(mask)[first + j * s[3]];
      }
    }
  }
}

}  // namespace plimsoll::kernels
