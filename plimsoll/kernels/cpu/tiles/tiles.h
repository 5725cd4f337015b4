// Products of bf16 matrices on AMX tiles (Intel's AMX), whose registers are tiles of 16 rows of 64 bytes. oneDNN
// uses them for products and convolutions; here are the pieces for kernels that need small products within their own
// loops. Where a machine has no such units, plain code stands in for them, slowly: for tests.
#pragma once

#include <cstdint>

namespace plimsoll::kernels::tiles {

inline constexpr int64_t kDepth = 32;  // products that are added up in one step
inline constexpr int64_t kBlock = 32;  // rows and columns of a block of results: two tiles by two

// c = a b, or c += a b, with c [kBlock, kBlock], a [kBlock, steps * kDepth], b [steps * kDepth, kBlock]. bf16 is given
// as the bits that it is, sums are f32. Rows of a and c are any distance apart; b is packed (pack.h).
struct BlockProduct {
  const uint16_t* a;
  int64_t a_row;
  const uint16_t* b;
  int64_t steps;
  float* c;
  int64_t c_row;
  bool add;
};

struct Functions {
  void (*begin)();
  void (*multiply)(const BlockProduct& product);
  void (*end)();
  // To the nearest bf16; what is below the smallest normal number may become 0.
  void (*downcast)(uint16_t* y, const float* x, int64_t count);
};

// Whether this machine has such units and the system lets us use them.
bool has_units();

// Of this machine's units, or of what stands in for them.
const Functions& functions();

// A thread's tiles are set up while this lives; no other library computes on the thread meanwhile.
class Tiles {
 public:
  Tiles() { functions().begin(); }
  ~Tiles() { functions().end(); }
  Tiles(const Tiles&) = delete;
  Tiles& operator=(const Tiles&) = delete;

  void multiply(const BlockProduct& product) const { functions().multiply(product); }
};

#if defined(__x86_64__)
namespace amx {
extern const Functions kFunctions;
}
#endif
namespace any {
extern const Functions kFunctions;
}

}  // namespace plimsoll::kernels::tiles
