// Which vector instructions kernels use: those of this machine, or fewer where PLIMSOLL_MAX_ISA in the environment says
// so (sse4, avx2, avx512 or amx), so that any machine can test and measure what narrower ones do. It limits our own
// loops, our AMX tiles and oneDNN alike. Read once in a process.
#pragma once

#include <cstdint>
#include <string_view>

namespace plimsoll::kernels {

// Each has what those before it have. Machines that are not x86 have the first.
enum class Isa : uint8_t { sse4, avx2, avx512, amx };

std::string_view isa_name(Isa isa);

// What `text` names; amx, which is no limit, when it is null. ArgumentError when it names none.
Isa isa_limit_of(const char* text);

// Of PLIMSOLL_MAX_ISA. ArgumentError as above, at every call.
Isa isa_limit();

// Of vectors, within the limit: at most avx512. For AMX see tiles/tiles.h.
Isa vector_isa();

}  // namespace plimsoll::kernels
