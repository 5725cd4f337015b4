// Ops over all ranks of a run, which execute the same programs: each rank has its own operand, and waits for the
// others. Those that wait stay where they are in the program and run once: every rank must come to them in the same
// order. A tensor of n elements, in row-major order, is spread over ranks in shards of ceil(n / ranks), the last of
// them filled up with zeros.
#pragma once

#include "plimsoll/program/builder.h"

namespace plimsoll::program {

// The sum over all ranks, in the storage of x.
Value all_reduce(Builder& b, Value x, int ranks);

// This rank's shard of the sum, one-dimensional; x is used up. The sizes of x must be known.
Value reduce_scatter(Builder& b, Value x, int ranks);

// This rank's shard of x, a copy. Waits for nobody.
Value own_shard(Builder& b, Value x, int ranks);

// Every rank's `shard` together, in the storage of x.
Value all_gather(Builder& b, Value x, Value shard, int ranks);

// What rank `root` has, in the storage of x.
Value broadcast(Builder& b, Value x, int ranks, int root = 0);

// A copy with a storage of its own.
Value clone(Builder& b, Value x);

// Elements of a shard.
Dim shard_elements(const Dims& shape, int ranks);

// Whether the op waits for other ranks.
bool is_collective(const OpDef& def);

// Whether it has a meaning only in a run of several ranks: collectives, and what depends on which one this is.
bool needs_ranks(const OpDef& def);

// The collectives of a program in their order, one a line with what they are over: the same on all ranks.
std::string collectives_text(const Program& program);

// Bytes that a rank sends in one run of the program, where each collective is the best there is: a ring.
int64_t sent_bytes(const Program& program);
int64_t collectives(const Program& program);

}  // namespace plimsoll::program
