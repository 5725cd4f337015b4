#include "plimsoll/pack/pack.h"

#include <fmt/format.h>

#include <algorithm>

#include "plimsoll/base/bytes.h"
#include "plimsoll/base/error.h"
#include "plimsoll/pack/decompose.h"
#include "plimsoll/pack/greedy.h"
#include "plimsoll/pack/improve.h"
#include "plimsoll/pack/instance.h"
#include "plimsoll/pack/oracle.h"
#include "plimsoll/pack/recipe.h"
#include "plimsoll/pack/repair.h"
#include "plimsoll/pack/window.h"

namespace plimsoll::pack {
namespace {

void check_options(std::span<const Buffer> buffers, const Options& options) {
  for (const Packing& hint : options.hints) {
    if (hint.offsets.size() == buffers.size()) continue;
    throw ArgumentError(
        fmt::format("a hint of {} offsets for {} buffers, expected one for each", hint.offsets.size(), buffers.size()));
  }
  if (options.threads < 1) throw ArgumentError(fmt::format("{} threads, expected at least 1", options.threads));
  if (options.capacity.value_or(0) < 0) {
    throw ArgumentError(fmt::format("the capacity is {}, expected at least 0", *options.capacity));
  }
}

Bound simple_bound(const Instance& instance) {
  const auto most = std::max_element(instance.loads.begin(), instance.loads.end());
  const int64_t time = instance.times[most - instance.loads.begin()];
  Bound bound{*most * instance.unit, Bound::Kind::live_load, time, time + 1};
  for (int32_t i = 0; i < static_cast<int32_t>(instance.fixed.size()); ++i) {
    const int64_t end = (instance.fixed[i] + instance.sizes[i]) * instance.unit;
    if (instance.fixed[i] < 0 || end <= bound.bytes) continue;
    const Span hull = instance.hull(i);
    bound = {end, Bound::Kind::fixed_offset, instance.times[hull.first], instance.times[hull.end - 1] + 1};
  }
  return bound;
}

// Two fixed offsets that collide, if any.
std::string fixed_collision(std::span<const Buffer> buffers) {
  std::vector<Buffer> fixed;
  std::vector<int64_t> offsets;
  std::vector<size_t> indices;
  for (size_t i = 0; i < buffers.size(); ++i) {
    if (!buffers[i].fixed_offset) continue;
    fixed.push_back(buffers[i]);
    offsets.push_back(*buffers[i].fixed_offset);
    indices.push_back(i);
  }
  const auto fault = find_fault(fixed, offsets);
  if (!fault) return {};
  return fmt::format("the fixed offsets of buffers {} and {} collide at time {}", indices[fault->buffer],
                     indices[fault->other], fault->time);
}

// Why the capacity cannot do, when the bound alone says so.
std::string too_small(std::span<const Buffer> buffers, int64_t capacity, const Bound& bound) {
  for (size_t i = 0; i < buffers.size(); ++i) {
    if (buffers[i].bytes <= capacity) continue;
    return fmt::format("buffer {} of {} bytes is larger than the capacity of {}", i, buffers[i].bytes, capacity);
  }
  return fmt::format("the capacity of {} is too small: {} ({} bytes)", capacity, bound.text(), bound.bytes);
}

// A part of the instance as an instance of its own.
struct Subproblem {
  Subproblem(const Instance& whole, const Part& its_part, int64_t enough, const Limits& limits)
      : part(its_part), instance(restrict_to(whole, part.buffers)) {
    bracket.lower = *std::max_element(instance.loads.begin(), instance.loads.end());
    bracket.best = pack_greedily(instance, enough - part.base, pack_at_once(instance), limits.deadline);
  }

  int64_t lower() const { return part.base + bracket.lower; }

  void put_into(Placement& whole) const {
    for (size_t i = 0; i < part.buffers.size(); ++i)
      whole.offsets[part.buffers[i]] = part.base + bracket.best.offsets[i];
    whole.peak = std::max(whole.peak, part.base + bracket.best.peak);
  }

  Part part;
  Instance instance;
  Bracket bracket;
};

class Packer {
 public:
  Packer(std::span<const Buffer> buffers, const Options& options)
      : buffers_(buffers), options_(options), instance_(make_instance(buffers)), bound_(simple_bound(instance_)) {
    deadline_ =
        std::chrono::steady_clock::now() + std::chrono::duration_cast<std::chrono::steady_clock::duration>(
                                               std::chrono::duration<double>(std::min(options.time_limit_s, 1e8)));
    bracket_.lower = bound_.bytes / instance_.unit;
  }

  Result pack() {
    if (!instance_.fixed.empty()) {
      if (std::string collision = fixed_collision(buffers_); !collision.empty())
        return infeasible(std::move(collision));
    }
    const bool searchable = instance_.count() <= kMostForSearch;
    if (options_.capacity && bound_.bytes > *options_.capacity) {
      bracket_.best = pack_at_once(instance_);
      return infeasible(too_small(buffers_, *options_.capacity, bound_));
    }
    begin();
    if (too_high()) keep_better(pack_at_once(instance_), {});
    if (too_high() && searchable && !options_.hints.empty()) follow_all();
    if (too_high() && searchable) search();
    if (too_high() && !searchable)
      bracket_.best = pack_greedily(instance_, enough(), std::move(bracket_.best), deadline_);
    return conclude();
  }

 private:
  // A peak that answers the question, in units.
  int64_t enough() const { return options_.capacity ? *options_.capacity / instance_.unit : bracket_.lower; }

  bool too_high() const { return bracket_.best.peak > enough(); }
  Limits limits() const { return {.nodes = options_.node_limit - bracket_.nodes, .deadline = deadline_}; }

  // The first hint goes before all else. Where that took a search, a pass without holes will hardly do.
  void begin() {
    if (options_.hints.empty()) return;
    const Packing& first = options_.hints.front();
    if (first.recipes.empty()) {
      keep_better(restack(instance_, in_units(first.offsets)), {});
    } else {
      follow(first);
    }
  }

  // First fit in the order of a hint.
  void follow(const Packing& hint) {
    const std::vector<int64_t> offsets = in_units(hint.offsets);
    Placement placement = refill(instance_, offsets, wanted(offsets), limits());
    followed_ |= !placement.offsets.empty();
    keep_better(std::move(placement), hint.recipes);
  }

  // If none can be followed, what collides in the first of all is packed anew.
  void follow_all() {
    const Packing& first = options_.hints.front();
    for (const Packing& hint : options_.hints.subspan(first.recipes.empty() ? 0 : 1)) {
      follow(hint);
      if (!too_high()) return;
    }
    if (followed_) return;
    const std::vector<int64_t> offsets = in_units(first.offsets);
    keep_better(repair_windows(instance_, offsets, wanted(offsets), options_.inference, limits()), first.recipes);
  }

  std::vector<int64_t> in_units(std::vector<int64_t> offsets) const {
    constexpr int64_t kMost = int64_t{1} << 62;  // sums with sizes cannot overflow
    for (int64_t& offset : offsets) offset = offset >= 0 && offset < kMost ? offset / instance_.unit : -1;
    return offsets;
  }

  // When minimising, a peak as high as the hint's is good to begin with.
  int64_t wanted(const std::vector<int64_t>& hint) const {
    int64_t peak = enough();
    for (size_t i = 0; !options_.capacity && i < hint.size(); ++i) {
      if (hint[i] >= 0) peak = std::max(peak, hint[i] + instance_.sizes[i]);
    }
    return peak;
  }

  // Packs each part on its own, first all of them fast, then those that are still too high by complete search.
  void search() {
    const Decomposition decomposition = decompose(instance_, enough(), options_.inference);
    std::vector<Subproblem> hard;
    Placement combined{decomposition.offsets, 0};
    for (int32_t i = 0; i < instance_.count(); ++i) {
      if (combined.offsets[i] >= 0) combined.peak = std::max(combined.peak, combined.offsets[i] + instance_.sizes[i]);
    }
    for (const Part& part : decomposition.parts) {
      Subproblem sub(instance_, part, enough(), limits());
      if (part.base + sub.bracket.best.peak > enough()) {
        hard.push_back(std::move(sub));
      } else {
        sub.put_into(combined);
      }
    }
    std::stable_sort(hard.begin(), hard.end(), [](const auto& a, const auto& b) { return a.lower() > b.lower(); });
    std::vector<Recipe> recipes;
    for (size_t i = 0; i < hard.size(); ++i) {
      improve_part(hard[i], hard.size() - i);
      hard[i].put_into(combined);
      if (hard[i].bracket.run) recipes.push_back(recipe_of(*hard[i].bracket.run, hard[i].part));
    }
    keep_better(decomposition.last.empty() ? std::move(combined) : completed(combined, decomposition.last), recipes);
  }

  Placement completed(const Placement& placement, std::span<const int32_t> last) const {
    Instance in_place = instance_;
    in_place.fixed = placement.offsets;
    return first_fit(in_place, last);
  }

  void keep_better(Placement placement, const std::vector<Recipe>& recipes) {
    if (placement.offsets.empty() || placement.peak >= bracket_.best.peak) return;
    bracket_.best = std::move(placement);
    recipes_ = recipes;
  }

  void improve_part(Subproblem& sub, size_t parts_left) {
    const std::vector<Run> runs = runs_for(sub.part, options_.hints);
    const auto now = std::chrono::steady_clock::now();
    const Effort effort{.limits = {.nodes = options_.node_limit - bracket_.nodes,
                                   .deadline = now + std::max(deadline_ - now, {}) / parts_left},
                        .threads = options_.threads,
                        .seed = options_.seed,
                        .inference = options_.inference,
                        .runs = runs};
    improve(sub.instance, sub.bracket, enough() - sub.part.base, options_.capacity.has_value(), effort);
    bracket_.nodes += sub.bracket.nodes;
    if (sub.lower() <= bracket_.lower) return;
    bracket_.lower = sub.lower();
    const Span refuted = sub.bracket.refuted;
    bound_ = {bracket_.lower * instance_.unit, Bound::Kind::search, sub.instance.times[refuted.first],
              sub.instance.times[refuted.end - 1] + 1};
  }

  Result conclude() {
    if (!options_.capacity || bracket_.best.peak <= enough()) return finish({});
    if (bracket_.lower > enough()) {
      return infeasible(fmt::format("the complete search has shown that {} bytes are too few", *options_.capacity));
    }
    Result result = finish(fmt::format("no packing in {} bytes was found within the limits; the best takes {}",
                                       *options_.capacity, bracket_.best.peak * instance_.unit));
    result.outcome = Result::Outcome::out_of_time;
    return result;
  }

  Result infeasible(std::string reason) {
    Result result = finish(std::move(reason));
    result.outcome = Result::Outcome::infeasible;
    return result;
  }

  Result finish(std::string reason) {
    Result result;
    result.reason = std::move(reason);
    Packing& packing = result.best;
    packing.offsets = std::move(bracket_.best.offsets);
    for (int64_t& offset : packing.offsets) offset *= instance_.unit;
    if (!packing.offsets.empty()) packing.peak_bytes = bracket_.best.peak * instance_.unit;
    packing.lower_bound_bytes = bound_.bytes;
    packing.bound = bound_;
    packing.optimal = packing.peak_bytes == bound_.bytes;
    packing.nodes = bracket_.nodes;
    packing.recipes = std::move(recipes_);
    return result;
  }

  std::span<const Buffer> buffers_;
  const Options& options_;
  Instance instance_;
  Bound bound_;
  Bracket bracket_;
  std::vector<Recipe> recipes_;  // of the best packing
  bool followed_ = false;        // a hint, as far down as it was or as is asked for
  std::chrono::steady_clock::time_point deadline_;
};

}  // namespace

std::string Bound::text() const {
  switch (kind) {
    case Kind::live_load:
      return fmt::format("{} are alive at time {}", format_bytes(bytes), first);
    case Kind::fixed_offset:
      return fmt::format("a fixed offset ends at {}", format_bytes(bytes));
    case Kind::search:
      return fmt::format("what is alive in [{}, {}) does not fit in less than {}", first, end, format_bytes(bytes));
  }
  return {};
}

Result pack(std::span<const Buffer> buffers, const Options& options) {
  check_options(buffers, options);
  if (buffers.empty()) return {.best = {.optimal = true}};
  return Packer(buffers, options).pack();
}

std::vector<Packing> pack_variously(std::span<const Buffer> buffers, int count, const Options& options) {
  std::vector<Packing> packings;
  Options other = options;
  other.hints = {};
  for (int i = 0; i < count; ++i) {
    ++other.seed;
    Result result = pack(buffers, other);
    if (result->nodes == 0) break;
    const auto same = [&](const Packing& packing) { return packing.offsets == result->offsets; };
    if (!result || std::any_of(packings.begin(), packings.end(), same)) continue;
    packings.push_back(std::move(result.best));
  }
  return packings;
}

}  // namespace plimsoll::pack
