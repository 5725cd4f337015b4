#include "plimsoll/kernels/cpu/support/attention.h"

namespace plimsoll::kernels {

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
