// How several ranks sum their gradients: small ones together in buckets, so that there are few messages, and each sum
// started where its gradients are complete, so that it is under way while the backward pass goes on. Shared by the
// forms that a step can take, like updates.h.
#pragma once

#include <span>
#include <vector>

#include "plimsoll/program/updates.h"

namespace plimsoll::program {

// Gradients that are summed at once.
struct GradientBucket {
  std::vector<size_t> members = {};  // places in the list of what is trained
  int64_t bytes = 0;                 // 0: not known before sizes are bound
  int32_t made = -1;                 // place of the op that completes the last of them
  int32_t done = -1;                 // of the op after which the sum is waited for, and used
};

// In the order in which they are complete. A sum is waited for when more than options.in_flight_bytes would be under
// way, the first at first, and the last ones after the op `last`. One rank: a bucket for each, in their order, which is
// done where the update may be.
std::vector<GradientBucket> gradient_buckets(const Program& program, std::span<const Trained> trained,
                                             const TrainOptions& options, int32_t last);

// Emits the sums of a list's gradients, which are then the list's: the sum, or this rank's shard of it.
class GradientSums {
 public:
  GradientSums(Builder& b, std::vector<Trained>& trained, const TrainOptions& options)
      : b_(b), trained_(trained), options_(options), going_(trained.size()) {}

  void start(const GradientBucket& bucket);
  void finish(const GradientBucket& bucket);

 private:
  Value addend(const GradientBucket& bucket);
  Value wait_for(const GradientBucket& bucket);
  void hand_out(const GradientBucket& bucket, Value sum);

  Builder& b_;
  std::vector<Trained>& trained_;
  const TrainOptions& options_;
  std::vector<std::pair<Value, Value>> going_;  // of the bucket's first member: what is under way, and what it reads
};

// Whether shards of gradients are summed, rather than gradients.
bool is_sharded(const TrainOptions& options);
// Whether sums of micro-batches are shards.
bool sums_are_shards(const TrainOptions& options);
// Whether each rank holds its shard alone of a parameter: of those above a 64th of a bucket.
bool is_spread(const Type& parameter, const TrainOptions& options);

}  // namespace plimsoll::program
