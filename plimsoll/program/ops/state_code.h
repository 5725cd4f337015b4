// How optimizer state is held in 8 bits. A block of kStateBlock elements shares a scale, which is the largest size
// among them. Each element is a share of it, 0 to 1, by a code with eight levels to an octave:
//
//   top        1, the scale itself
//   top - 8    1/2; the seven codes between are 9/16, 10/16, .. 15/16
//   top - 16   1/4, and so on down to code 1
//   0          nothing
//
// So small elements are as precise as large ones. Evenly spaced levels would make most squares of gradients zero, which
// are spread over many octaves; Adam divides by their roots, and its steps would explode. What is signed has the sign
// in the highest bit and 16 octaves below it (top 127); what is not has 32 (top 255), since squares are twice as wide.
//
// An element between two levels goes to one of them by chance, the nearer the likelier, so that it is kept on average:
// running means change by as little as a thousandth in a step, and rounded to the nearest level they would stand still.
// Pure functions; all kernels on all devices draw the same chances.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>

namespace plimsoll::program {

inline constexpr int64_t kStateBlock = 256;
inline constexpr uint32_t kSignedTop = 127;
inline constexpr uint32_t kUnsignedTop = 255;

// A share's first bits as a float are its level: the exponent, and three bits of the fraction. All is said in bits, not
// in comparisons of floats, so that compilers make vectors of it.
inline constexpr uint32_t kBitsBelowLevel = 20;
inline constexpr uint32_t kLevelOfOne = 0x3F800000U >> kBitsBelowLevel;

constexpr float share_of(uint32_t code, uint32_t top) {
  return std::bit_cast<float>(code == 0 ? 0 : (kLevelOfOne - top + code) << kBitsBelowLevel);
}

// `share` is not negative, `chance` has kBitsBelowLevel random bits. What is below the smallest level becomes that or
// 0.
constexpr uint32_t code_of(float share, uint32_t top, uint32_t chance) {
  const float smallest = share_of(1, top);
  const float raised = share + smallest * (static_cast<float>(static_cast<int32_t>(chance)) * 0x1p-20F);
  const uint32_t reaches = std::bit_cast<uint32_t>(raised) >= std::bit_cast<uint32_t>(smallest) ? 1 : 0;
  const uint32_t level = (std::bit_cast<uint32_t>(share) + chance) >> kBitsBelowLevel;
  const uint32_t code = std::min(level - (kLevelOfOne - top), top);
  const uint32_t is_below = std::bit_cast<uint32_t>(share) < std::bit_cast<uint32_t>(smallest) ? ~0U : 0;
  return (is_below & reaches) | (~is_below & code);
}

constexpr uint8_t signed_code(float share, uint32_t chance) {
  const auto bits = std::bit_cast<uint32_t>(share);
  const uint32_t size = code_of(std::bit_cast<float>(bits & 0x7FFFFFFFU), kSignedTop, chance);
  return static_cast<uint8_t>(size | (bits >> 24 & 0x80U));
}
constexpr float signed_share(uint8_t code) {
  const auto size = std::bit_cast<uint32_t>(share_of(code & 0x7FU, kSignedTop));
  return std::bit_cast<float>(size | (code & 0x80U) << 24);
}

// What is divided by is rather too large than nothing: no share above 0 becomes 0.
constexpr uint8_t unsigned_code(float share, uint32_t chance) {
  const uint32_t least = std::min(std::bit_cast<uint32_t>(share), 1U);
  return static_cast<uint8_t>(std::max(code_of(share, kUnsignedTop, chance), least));
}
constexpr float unsigned_share(uint8_t code) { return share_of(code, kUnsignedTop); }

// 32 bits that look random, from a counter: the finaliser of MurmurHash3.
constexpr uint32_t scrambled(uint32_t x) {
  x = (x ^ x >> 16) * 0x85EBCA6BU;
  x = (x ^ x >> 13) * 0xC2B2AE35U;
  return x ^ x >> 16;
}

// The chances of element i in a step are made of scrambled(first_chance(step) + i): for a signed state its lower bits,
// for an unsigned one its upper bits.
constexpr uint32_t first_chance(int64_t step) { return scrambled(static_cast<uint32_t>(step) * 0x9E3779B9U); }
constexpr uint32_t signed_chance(uint32_t bits) { return bits & ((1U << kBitsBelowLevel) - 1); }
constexpr uint32_t unsigned_chance(uint32_t bits) { return bits >> (32 - kBitsBelowLevel); }

}  // namespace plimsoll::program
