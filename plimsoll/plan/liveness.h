// Which memory of a bound program is needed when. Time counts ops: at time t op t reads its operands and writes its
// results, so both are alive then; a step of n ops takes the times 0 to n - 1.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "plimsoll/program/program.h"

namespace plimsoll::plan {

// What one or more values of a program live in: an owner, its views and what overwrites it. Alive from the op that
// makes it to the last that touches it. What comes in stays for the whole step; so does what the caller reads after
// it, from the op that makes it. The scratch of a kernel is a storage without an owner, alive at its op alone.
struct Storage {
  program::Value owner;  // nothing: scratch of op `first`
  int64_t bytes = 0;
  int32_t first = 0;   // alive in [first, end)
  int32_t end = 0;     //
  int32_t buffer = 0;  // place in Liveness::buffers
};

// Memory to place. One storage, or a chain of them in which each is made in place of the one before; at the op that
// does so both are alive, in the same bytes.
struct Buffer {
  int64_t bytes = 0;
  int32_t first = 0;        // alive in [first, end)
  int32_t end = 0;          //
  bool persistent = false;  // came in: input, parameter or state
};

struct Liveness {
  std::vector<Storage> storages;  // of all values that own one and are used, in their order; then of scratch, by op
  std::vector<Buffer> buffers;
  int32_t steps = 1;  // times are below this; the number of ops, at least 1
};

struct LivenessOptions {
  bool in_place = true;  // results take the memory of operands that nothing reads later, where the op allows it
  std::span<const int64_t> scratch_bytes = {};  // of the kernel of each op; empty: none
};

// ArgumentError names a value whose shape is not bound.
Liveness find_liveness(const program::Program& program, const LivenessOptions& options = {});

// Bytes of all buffers alive at each time.
std::vector<int64_t> live_bytes(const Liveness& liveness);

// The storages alive at a time, one for each buffer: of two that hand over, the one being made.
std::vector<Storage> alive_at(const Liveness& liveness, int32_t time);

}  // namespace plimsoll::plan
