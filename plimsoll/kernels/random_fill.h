// Numbers without meaning, for synthetic data: many and fast. A number depends on the key of its sample and its
// place in the sample, and on nothing else; how samples are cut into calls and threads makes no difference.
#pragma once

#include <cstdint>
#include <span>

namespace plimsoll::kernels {

// One key for each sample; they share `into` evenly. Even in [-1, 1).
void random_fill(std::span<float> into, std::span<const uint32_t> keys, int threads);
// Even in [0, range).
void random_fill(std::span<int64_t> into, std::span<const uint32_t> keys, int64_t range, int threads);

}  // namespace plimsoll::kernels
