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

}  // namespace

void register_collective_reference(OpTable& table) {
  table.reference("all_reduce", [](auto& run) { all_reduce(run); });
  table.reference("reduce_scatter", [](auto& run) { reduce_scatter(run); });
  table.reference("own_shard", [](auto& run) {
    own_shard(run, static_cast<typename std::remove_reference_t<decltype(run)>::Real>(1));
  });
  table.reference("all_gather", [](auto& run) { all_gather(run); });
  table.reference("broadcast", [](auto& run) { run.out() = run.in(0); });
  table.reference("clone", [](auto& run) { run.out() = run.in(0); });
}

}  // namespace plimsoll::program
