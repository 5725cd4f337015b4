#include "plimsoll/kernels/cpu/support/isa.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdlib>

#include "plimsoll/base/error.h"

namespace plimsoll::kernels {
namespace {

constexpr std::array<std::string_view, 4> kNames = {"sse4", "avx2", "avx512", "amx"};

Isa machine_isa() {
#if defined(__x86_64__)
  __builtin_cpu_init();
  const bool narrow = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
                      __builtin_cpu_supports("bmi") && __builtin_cpu_supports("bmi2");
  const bool wide = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") &&
                    __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl") &&
                    __builtin_cpu_supports("avx512cd");
  return narrow && wide ? Isa::avx512 : narrow ? Isa::avx2 : Isa::sse4;
#else
  return Isa::sse4;
#endif
}

}  // namespace

std::string_view isa_name(Isa isa) { return kNames[static_cast<size_t>(isa)]; }

Isa isa_limit_of(const char* text) {
  if (text == nullptr) return Isa::amx;
  const auto* found = std::find(kNames.begin(), kNames.end(), std::string_view(text));
  if (found == kNames.end()) {
    throw ArgumentError(
        fmt::format("PLIMSOLL_MAX_ISA is {}, expected sse4, avx2, avx512 or amx: the widest vector instructions that "
                    "kernels may use",
                    quote(text)));
  }
  return static_cast<Isa>(found - kNames.begin());
}

Isa isa_limit() {
  static const Isa limit = isa_limit_of(std::getenv("PLIMSOLL_MAX_ISA"));
  return limit;
}

Isa vector_isa() {
  static const Isa isa = std::min(machine_isa(), isa_limit());
  return isa;
}

}  // namespace plimsoll::kernels
