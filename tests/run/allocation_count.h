// Counts what this test binary allocates, by any thread.
#pragma once

#include <cstdint>

namespace plimsoll {

int64_t allocation_count();

}  // namespace plimsoll
