// As rank 0 has it where all ranks have the same operands.
#include <algorithm>

#include "plimsoll/program/evaluate.h"

namespace plimsoll::program {
namespace {

template <class T>
void all_reduce(Run<T>& run) {
  const auto ranks = static_cast<T>(run.call.integer("ranks"));
  for (size_t i = 0; i < run.reals(0).size(); ++i) run.out().reals[i] = ranks * run.reals(0)[i];
}

template <class T>
void own_shard(Run<T>& run, T factor) {
  std::vector<T>& shard = run.out().reals;
  for (size_t i = 0; i < std::min(shard.size(), run.reals(0).size()); ++i) shard[i] = factor * run.reals(0)[i];
}

template <class T>
void reduce_scatter(Run<T>& run) {
  own_shard(run, static_cast<T>(run.call.integer("ranks")));
  run.out(1) = run.in(0);
}

template <class T>
void all_gather(Run<T>& run) {
  std::vector<T>& all = run.out().reals;
  for (size_t i = 0; i < all.size(); ++i) all[i] = run.reals(1)[i % run.reals(1).size()];
}

template <class T>
void pack_shards(Run<T>& run) {
  const int64_t ranks = run.call.integer("ranks");
  const auto each = static_cast<int64_t>(run.out().reals.size()) / ranks;
  int64_t at = 0;
  for (int i = 0; i < run.arity(); ++i) {
    const std::vector<T>& x = run.reals(i);
    const int64_t shard = (static_cast<int64_t>(x.size()) + ranks - 1) / ranks;
    for (int64_t k = 0; k < static_cast<int64_t>(x.size()); ++k) {
      run.out().reals[static_cast<size_t>(k / shard * each + at + k % shard)] = x[static_cast<size_t>(k)];
    }
    at += shard;
  }
}

template <class T>
void take_shards(Run<T>& run) {
  const int64_t ranks = run.call.integer("ranks");
  const auto each = static_cast<int64_t>(run.reals(1).size()) / ranks;
  const auto elements = static_cast<int64_t>(run.out().reals.size());
  const int64_t shard = (elements + ranks - 1) / ranks;
  for (int64_t k = 0; k < elements; ++k) {
    run.out().reals[static_cast<size_t>(k)] =
        run.reals(1)[static_cast<size_t>(k / shard * each + run.call.integer("at") + k % shard)];
  }
}

// Of one shard: all ranks have the same.
template <class T>
void gather_start(Run<T>& run) {
  std::vector<T>& all = run.out().reals;
  for (size_t i = 0; i < all.size(); ++i) all[i] = run.reals(0)[i % run.reals(0).size()];
}

}  // namespace

void register_collective_reference(OpTable& table) {
  table.reference("all_reduce", [](auto& run) { all_reduce(run); });
  table.reference("reduce_scatter", [](auto& run) { reduce_scatter(run); });
  table.reference("own_shard", [](auto& run) {
    own_shard(run, static_cast<typename std::remove_reference_t<decltype(run)>::Real>(1));
  });
  table.reference("all_gather", [](auto& run) { all_gather(run); });
  table.reference("all_reduce_start", [](auto& run) { all_reduce(run); });
  table.reference("reduce_scatter_start", [](auto& run) { reduce_scatter(run); });
  table.reference("all_gather_start", [](auto& run) { all_gather(run); });
  table.reference("gather_start", [](auto& run) { gather_start(run); });
  table.reference("collective_finish", [](auto& run) { run.out() = run.in(0); });
  table.reference("pack_shards", [](auto& run) { pack_shards(run); });
  table.reference("take_shards", [](auto& run) { take_shards(run); });
  table.reference("broadcast", [](auto& run) { run.out() = run.in(0); });
  table.reference("clone", [](auto& run) { run.out() = run.in(0); });
}

}  // namespace plimsoll::program
