#include "plimsoll/pack/recipe.h"

#include <algorithm>
#include <numeric>

namespace plimsoll::pack {
namespace {

// Where a buffer is in a part; -1 when it is elsewhere.
int64_t place_in(const Part& part, int32_t buffer) {
  const auto found = std::lower_bound(part.buffers.begin(), part.buffers.end(), buffer);
  return found != part.buffers.end() && *found == buffer ? found - part.buffers.begin() : -1;
}

Run run_of(const Recipe& recipe, const Part& part) {
  constexpr int64_t kMostNodes = int64_t{1} << 40;
  const auto unknown = static_cast<int32_t>(recipe.order.size());
  Run run{recipe.strategy, std::vector<int32_t>(part.buffers.size(), unknown),
          std::clamp<int64_t>(recipe.nodes, 0, kMostNodes) * 5 / 4};
  for (int32_t rank = 0; rank < unknown; ++rank) {
    if (const int64_t place = place_in(part, recipe.order[rank]); place >= 0) run.ranks[place] = rank;
  }
  return run;
}

}  // namespace

Recipe recipe_of(const Run& run, const Part& part) {
  std::vector<int32_t> places(part.buffers.size());
  std::iota(places.begin(), places.end(), 0);
  std::stable_sort(places.begin(), places.end(), [&](int32_t a, int32_t b) { return run.ranks[a] < run.ranks[b]; });
  Recipe recipe{.strategy = run.strategy, .nodes = run.nodes};
  for (const int32_t place : places) recipe.order.push_back(part.buffers[place]);
  return recipe;
}

std::vector<Run> runs_for(const Part& part, std::span<const Packing> hints) {
  std::vector<Run> runs;
  for (const Packing& hint : hints) {
    for (const Recipe& recipe : hint.recipes) {
      const bool concerns_it = !recipe.order.empty() && place_in(part, recipe.order.front()) >= 0;
      if (concerns_it) runs.push_back(run_of(recipe, part));
    }
  }
  std::stable_sort(runs.begin(), runs.end(), [](const Run& a, const Run& b) { return a.nodes < b.nodes; });
  return runs;
}

}  // namespace plimsoll::pack
