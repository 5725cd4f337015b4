// Instances for the tests, with what is known of them.
#pragma once

#include <cstdint>
#include <random>
#include <vector>

#include "plimsoll/pack/pack.h"

namespace plimsoll::pack {

using Buffers = std::vector<Buffer>;

inline int64_t between(std::mt19937_64& random, int64_t least, int64_t most) {
  return least + static_cast<int64_t>(random() % static_cast<uint64_t>(most - least + 1));
}

// What random_buffers mixes in.
struct Spice {
  bool alignments = false;
  bool gaps = false;
  bool fixed = false;
};

Buffers random_buffers(std::mt19937_64& random, int64_t count, const Spice& spice = {});

// A rectangle of `times` by `bytes`, cut into `count` pieces: they fill it without a hole, so its height is the
// optimum.
Buffers planted(std::mt19937_64& random, int64_t count, int64_t times, int64_t bytes);
// The same with each piece's offset fixed to where it was cut from.
Buffers planted_in_place(std::mt19937_64& random, int64_t count, int64_t times, int64_t bytes);

// Buffers at random for as long as the live load stays within `capacity`: some such instances fit, some do not.
Buffers crowded(std::mt19937_64& random, int64_t times, int64_t capacity);

// A training step: weights that stay, activations that nest (made forward, freed backward), short-lived gradients.
Buffers training_step(std::mt19937_64& random, int64_t layers);

// Whether some packing has a peak below `limit`, by trying every order. For up to about 12 buffers.
bool packing_exists_below(const Buffers& buffers, int64_t limit);

}  // namespace plimsoll::pack
