#include "plimsoll/program/gradient_sums.h"

#include <algorithm>
#include <deque>
#include <numeric>

#include "plimsoll/program/ops/collective.h"
#include "plimsoll/program/ops/elementwise_unary.h"
#include "plimsoll/program/ops/shape.h"
#include "plimsoll/program/ops/slice.h"

namespace plimsoll::program {
namespace {

constexpr int64_t kSpreadShare = 64;                  // of a bucket: to gather less is all latency
constexpr int64_t kLeastInFlight = int64_t{4} << 20;  // bytes
constexpr int64_t kInFlightShare = 8;                 // of all gradients

int64_t bytes_of(const Type& type) { return type.shape.elements().is_constant() ? type.bytes().constant() : 0; }

bool is_small(const Type& type, const TrainOptions& options) {
  return type.shape.elements().is_constant() && type.bytes().constant() < options.bucket_bytes;
}

std::vector<GradientBucket> one_each(std::span<const Trained> trained) {
  std::vector<GradientBucket> buckets;
  for (size_t i = 0; i < trained.size(); ++i) buckets.push_back({{i}, 0, trained[i].made, trained[i].after});
  return buckets;
}

// Small ones together, up to what a bucket takes, as long as they are of one dtype.
std::vector<GradientBucket> put_together(const Program& program, std::span<const Trained> trained,
                                         const TrainOptions& options) {
  std::vector<size_t> order(trained.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return trained[a].made < trained[b].made; });
  std::vector<GradientBucket> buckets;
  size_t open = SIZE_MAX;
  for (const size_t i : order) {
    const Type& type = program[trained[i].gradient].type;
    const bool small = is_small(type, options);
    const bool joins = small && open != SIZE_MAX && buckets[open].bytes + bytes_of(type) <= options.bucket_bytes &&
                       program[trained[buckets[open].members[0]].gradient].type.dtype == type.dtype;
    if (!joins) buckets.emplace_back();
    if (small && !joins) open = buckets.size() - 1;
    GradientBucket& bucket = joins ? buckets[open] : buckets.back();
    bucket.members.push_back(i);
    bucket.bytes += bytes_of(type);
    bucket.made = std::max(bucket.made, trained[i].made);
    bucket.done = std::max(bucket.done, trained[i].after);
  }
  std::stable_sort(buckets.begin(), buckets.end(),
                   [](const GradientBucket& a, const GradientBucket& b) { return a.made < b.made; });
  return buckets;
}

int64_t in_flight_bytes(std::span<const GradientBucket> buckets) {
  int64_t all = 0;
  for (const GradientBucket& bucket : buckets) all += bucket.bytes;
  return std::max(kLeastInFlight, all / kInFlightShare);
}

void wait_late(std::vector<GradientBucket>& buckets, int32_t last) {
  const int64_t most = in_flight_bytes(buckets);
  std::deque<GradientBucket*> under_way;
  int64_t bytes = 0;
  for (GradientBucket& bucket : buckets) {
    under_way.push_back(&bucket);
    bytes += bucket.bytes;
    for (; bytes > most; under_way.pop_front()) {
      bytes -= under_way.front()->bytes;
      under_way.front()->done = std::max(under_way.front()->done, bucket.made);
    }
  }
  for (GradientBucket* bucket : under_way) bucket->done = std::max(bucket->done, last);
}

}  // namespace

bool is_sharded(const TrainOptions& options) { return options.ranks > 1 && options.sharding != Sharding::none; }

bool sums_are_shards(const TrainOptions& options) {
  return is_sharded(options) && options.sharding != Sharding::optimizer;
}

bool is_spread(const Type& parameter, const TrainOptions& options) {
  return options.ranks > 1 && options.sharding == Sharding::parameters && is_floating(parameter.dtype) &&
         bytes_of(parameter) > options.bucket_bytes / kSpreadShare;
}

std::vector<GradientBucket> gradient_buckets(const Program& program, std::span<const Trained> trained,
                                             const TrainOptions& options, int32_t last) {
  if (options.ranks == 1) return one_each(trained);
  std::vector<GradientBucket> buckets = put_together(program, trained, options);
  if (options.overlap) wait_late(buckets, last);
  return buckets;
}

// What is summed over the ranks: a storage that nothing else needs.
Value GradientSums::addend(const GradientBucket& bucket) {
  const Trained& first = trained_[bucket.members[0]];
  Value x = first.gradient;
  const DType dtype = b_.type(x).dtype;
  const bool upcasts = options_.overlap && (dtype == DType::f16 || dtype == DType::bf16);
  if (bucket.members.size() > 1) {
    std::vector<Value> gradients;
    for (const size_t i : bucket.members) gradients.push_back(trained_[i].gradient);
    x = pack_shards(b_, gradients, is_sharded(options_) ? options_.ranks : 1);
  } else if (!first.is_own && !upcasts) {
    x = clone(b_, x);
  }
  return upcasts ? cast(b_, x, DType::f32) : x;
}

void GradientSums::start(const GradientBucket& bucket) {
  if (options_.ranks == 1 || !options_.overlap) return;
  const Value x = addend(bucket);
  const Going going = is_sharded(options_) ? reduce_scatter_start(b_, x, options_.ranks)
                                           : Going{all_reduce_start(b_, x, options_.ranks)};
  going_[bucket.members[0]] = {going.result, going.read};
}

Value GradientSums::wait_for(const GradientBucket& bucket) {
  if (!options_.overlap) {
    const Value x = addend(bucket);
    return is_sharded(options_) ? reduce_scatter(b_, x, options_.ranks) : all_reduce(b_, x, options_.ranks);
  }
  const auto [result, read] = going_[bucket.members[0]];
  const Value sum = collective_finish(b_, {result, read}, options_.ranks);
  const DType dtype = b_.type(trained_[bucket.members[0]].gradient).dtype;
  return b_.type(sum).dtype == dtype ? sum : cast(b_, sum, dtype);
}

void GradientSums::finish(const GradientBucket& bucket) {
  if (options_.ranks == 1) return;
  const Value sum = wait_for(bucket);
  if (bucket.members.size() == 1) {
    trained_[bucket.members[0]].gradient = sum;
  } else {
    hand_out(bucket, sum);
  }
}

// Each member shows its part of the pack.
void GradientSums::hand_out(const GradientBucket& bucket, Value sum) {
  Dim at = 0;
  for (const size_t i : bucket.members) {
    const Dims shape = b_.shape(trained_[i].gradient);
    const Dim part = is_sharded(options_) ? shard_elements(shape, options_.ranks) : shape.elements();
    const Value own = slice(b_, sum, Range{.axis = 0, .start = at, .end = at + part});
    trained_[i].gradient = is_sharded(options_) ? own : reshape(b_, own, shape);
    at = at + part;
  }
}

}  // namespace plimsoll::program
