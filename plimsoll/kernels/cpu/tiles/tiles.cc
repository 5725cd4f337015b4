#include "plimsoll/kernels/cpu/tiles/tiles.h"

#include "plimsoll/kernels/cpu/support/isa.h"

#if defined(__x86_64__)
#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif

namespace plimsoll::kernels::tiles {
namespace {

#if defined(__x86_64__)
bool machine_has_units() {
  constexpr unsigned kBf16 = 1U << 22;
  constexpr unsigned kTiles = 1U << 24;
  unsigned a = 0;
  unsigned b = 0;
  unsigned c = 0;
  unsigned d = 0;
  return __get_cpuid_count(7, 0, &a, &b, &c, &d) != 0 && (d & kBf16) != 0 && (d & kTiles) != 0;
}

// Linux gives a process room for the state of tiles once it has asked.
bool system_lets_us() {
  constexpr int kRequestPermission = 0x1023;
  constexpr int kTileData = 18;
  return syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0;
}

const Functions& pick() {
  const bool has = isa_limit() == Isa::amx && machine_has_units() && system_lets_us();
  return has ? amx::kFunctions : any::kFunctions;
}
#else
const Functions& pick() { return any::kFunctions; }
#endif

}  // namespace

bool has_units() { return &functions() != &any::kFunctions; }

const Functions& functions() {
  static const Functions& picked = pick();
  return picked;
}

}  // namespace plimsoll::kernels::tiles
