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

// The same, begun: other ops run while the sum is under way, in the storage of x, which is f32 or f64.
//
//   %going = all_reduce_start(%x)
//   %sum = collective_finish(%going)
Value all_reduce_start(Builder& b, Value x, int ranks);

// What is under way, and what it reads meanwhile, which must stay: an operand of collective_finish.
struct Going {
  Value result;
  Value read = {};
};
Going reduce_scatter_start(Builder& b, Value x, int ranks);
Going all_gather_start(Builder& b, Value x, Value shard, int ranks);

// Every rank's `shard` together as a new value of this shape.
Going gather_start(Builder& b, Value shard, const Dims& shape, int ranks);

// Waits until it is done: the same storage, which holds all of it from then on.
Value collective_finish(Builder& b, const Going& going, int ranks);

// Of several values of one dtype, their shards for rank 0, one after another, then those for rank 1, and so on: what
// is spread over ranks together. With one rank: one value after another.
Value pack_shards(Builder& b, std::span<const Value> xs, int ranks);

// What such a pack has of x, whose shards begin `at` elements after the first of each rank; in the storage of x.
Value take_shards(Builder& b, Value x, Value pack, Dim at, int ranks);

// A copy with a storage of its own.
Value clone(Builder& b, Value x);

// Elements of a shard.
Dim shard_elements(const Dims& shape, int ranks);

// Whether other ranks must come to the op in the same order: it waits for them, or starts what does.
bool is_collective(const OpDef& def);
// Whether it starts what collective_finish waits for.
bool starts_collective(const OpDef& def);
// Whether its time is that of a link between ranks: collectives, and what waits for them.
bool is_of_link(const OpDef& def);

// Whether it has a meaning only in a run of several ranks: collectives, and what depends on which one this is.
bool needs_ranks(const OpDef& def);

// Bytes of the whole of what a collective sums or gathers.
int64_t collective_bytes(const Program& program, const Op& op);
// How often they pass through a rank: twice in a sum that all have afterwards.
int collective_passes(const Op& op);

// The collectives of a program in their order, one a line with what they are over: the same on all ranks.
std::string collectives_text(const Program& program);

// Bytes that a rank sends in one run of the program, where each collective is the best there is: a ring.
int64_t sent_bytes(const Program& program);
int64_t collectives(const Program& program);

}  // namespace plimsoll::program
