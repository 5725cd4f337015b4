#include "plimsoll/pack/repacker.h"

#include <fmt/format.h>

#include <algorithm>
#include <unordered_set>

#include "plimsoll/base/bytes.h"
#include "plimsoll/base/error.h"
#include "plimsoll/pack/improve.h"
#include "plimsoll/pack/oracle.h"
#include "plimsoll/pack/repair.h"

namespace plimsoll::pack {
namespace {

constexpr int64_t kMostTotal = int64_t{1} << 62;  // as everywhere in packing: sums of offsets cannot overflow

int64_t padded(const Buffer& buffer) { return buffer.bytes == 0 ? 0 : buffer.bytes + buffer.alignment; }

std::vector<Buffer> checked(std::vector<Buffer> buffers, const Packing& packing) {
  check_buffers(buffers);
  if (const auto fault = find_fault(buffers, packing.offsets)) {
    throw ArgumentError(fmt::format("the packing to start from is wrong: {}", fault->text()));
  }
  return buffers;
}

const RepackOptions& checked(const RepackOptions& options) {
  if (!(options.tolerance >= 0)) {
    throw ArgumentError(fmt::format("the tolerance is {}, expected at least 0", options.tolerance));
  }
  if (options.packing.capacity.value_or(0) < 0) {
    throw ArgumentError(fmt::format("the capacity is {}, expected at least 0", *options.packing.capacity));
  }
  return options;
}

// The same in other names; what has none is left out.
std::vector<Recipe> renamed(std::vector<Recipe> recipes, std::span<const int32_t> names) {
  for (Recipe& recipe : recipes) {
    std::erase_if(recipe.order, [&](int32_t old) { return old < 0 || old >= std::ssize(names) || names[old] < 0; });
    for (int32_t& one : recipe.order) one = names[one];
  }
  return recipes;
}

// Each buffer on top of those that lay lower, the new ones below all others or above them. Without offsets when that
// ends above `most`. In bytes.
Placement push_up(std::span<const Buffer> buffers, const std::vector<int64_t>& before, int64_t most) {
  const Instance instance = make_instance(buffers);
  for (const int64_t place_of_new : {int64_t{0}, INT64_MAX}) {
    std::vector<int64_t> order = before;
    std::replace(order.begin(), order.end(), Arrangement::kNowhere, place_of_new);
    Placement placement = restack(instance, order);
    placement.peak *= instance.unit;
    if (placement.peak > most) continue;
    for (int64_t& offset : placement.offsets) offset *= instance.unit;
    return placement;
  }
  return {};
}

}  // namespace

// The buffers that are there, one after the other.
struct Repacker::Everything {
  explicit Everything(std::span<const Buffer> buffers_by_id) : places(buffers_by_id.size(), -1) {
    for (size_t id = 0; id < buffers_by_id.size(); ++id) {
      if (buffers_by_id[id].bytes == 0) continue;
      places[id] = static_cast<int32_t>(ids.size());
      ids.push_back(static_cast<int32_t>(id));
      buffers.push_back(buffers_by_id[id]);
    }
  }

  std::vector<int64_t> of(std::span<const int64_t> offsets_by_id) const {
    std::vector<int64_t> offsets(ids.size(), Arrangement::kNowhere);
    for (size_t i = 0; i < ids.size(); ++i) {
      if (ids[i] < std::ssize(offsets_by_id)) offsets[i] = offsets_by_id[ids[i]];
    }
    return offsets;
  }
  std::vector<int64_t> by_id(std::span<const int64_t> offsets) const {
    std::vector<int64_t> all(places.size(), Arrangement::kNowhere);
    for (size_t i = 0; i < ids.size(); ++i) all[ids[i]] = offsets[i];
    return all;
  }

  std::vector<int32_t> places;  // of each id, -1 for none
  std::vector<int32_t> ids;     // rising
  std::vector<Buffer> buffers;
};

Repacker::Repacker(std::vector<Buffer> buffers, const Packing& packing, const RepackOptions& options)
    : arrangement_(checked(std::move(buffers), packing), packing.offsets),
      options_(checked(options)),
      loads_(arrangement_.buffers()) {
  for (int32_t id = 0; id < arrangement_.size(); ++id) {
    total_ += padded(buffer(id));
    if (buffer(id).fixed_offset) fixed_.emplace(*buffer(id).fixed_offset + buffer(id).bytes, id);
  }
  keep({.offsets = packing.offsets, .recipes = packing.recipes});
  bound_ = simple_bound();
  if (packing.bound.bytes > bound_.bytes && packing.bound.bytes <= peak_bytes()) bound_ = packing.bound;
  note_interval();
}

Repacked Repacker::change(const Change& change) {
  check(change);
  Repacked result;
  const Bound bound_before = bound_;
  std::vector<Displaced> displaced = apply(change, result.added);
  bound_ = simple_bound();
  const int64_t most = ceiling(std::max(gap_, options_.tolerance / 2) + options_.tolerance / 2);
  Patch patch(arrangement_, most);
  const bool settled = bound_.bytes <= most && patch.settle(displaced);
  displaced.insert(displaced.end(), patch.ejected().begin(), patch.ejected().end());
  if (settled) {
    list_moved(displaced, result);
  } else if (!restart(displaced, most, result)) {
    undo(displaced, result.added);
    bound_ = bound_before;
    result.added.clear();
    return result;
  }
  free_ids_.insert(free_ids_.end(), change.removed.begin(), change.removed.end());
  return result;
}

void Repacker::check(const Change& change) const {
  check_ids(change);
  for (const Replacement& one : change.replaced) check_buffer(one.buffer, one.id);
  for (size_t i = 0; i < change.added.size(); ++i) check_buffer(change.added[i], i);
  check_total(change);
}

void Repacker::check_ids(const Change& change) const {
  std::unordered_set<int32_t> seen;
  const auto check_id = [&](int32_t id) {
    if (!has(id)) throw ArgumentError(fmt::format("no buffer has the id {}, expected one that was not removed", id));
    if (!seen.insert(id).second) throw ArgumentError(fmt::format("the id {} is named twice, expected once", id));
  };
  for (const int32_t id : change.removed) check_id(id);
  for (const Replacement& one : change.replaced) check_id(one.id);
}

void Repacker::check_total(const Change& change) const {
  int64_t total = fixed_.empty() ? total_ : total_ + fixed_.rbegin()->first;
  const auto add = [&](const Buffer& buffer) {
    for (const int64_t bytes : {buffer.bytes, buffer.alignment, buffer.fixed_offset.value_or(0)}) {
      total = checked_add(total, bytes).value_or(INT64_MAX);
    }
  };
  for (const Replacement& one : change.replaced) add(one.buffer);
  for (const Buffer& buffer : change.added) add(buffer);
  if (total <= kMostTotal) return;
  throw ArgumentError("sizes and offsets add up too high, expected less than 2^62 together with what is changed");
}

// Another buffer, or none, under this id. It lies nowhere then.
Displaced Repacker::swap(int32_t id, Buffer next) {
  Displaced before{.id = id};
  if (id < arrangement_.size()) before = {id, buffer(id), offset(id)};
  if (before.offset != Arrangement::kNowhere) arrangement_.take(id);
  loads_.remove(before.before);
  if (before.before.fixed_offset) fixed_.erase({*before.before.fixed_offset + before.before.bytes, id});
  loads_.add(next);
  if (next.fixed_offset) fixed_.emplace(*next.fixed_offset + next.bytes, id);
  total_ += padded(next) - padded(before.before);
  arrangement_.set(id, std::move(next));
  return before;
}

std::vector<Displaced> Repacker::apply(const Change& change, std::vector<int32_t>& added) {
  std::vector<Displaced> displaced;
  for (const int32_t id : change.removed) displaced.push_back(swap(id, {}));
  for (const Replacement& one : change.replaced) displaced.push_back(swap(one.id, one.buffer));
  for (const Buffer& buffer : change.added) {
    added.push_back(free_ids_.empty() ? arrangement_.size() : free_ids_.back());
    if (!free_ids_.empty()) free_ids_.pop_back();
    displaced.push_back(swap(added.back(), buffer));
  }
  return displaced;
}

void Repacker::list_moved(std::span<const Displaced> displaced, Repacked& result) const {
  for (const Displaced& one : displaced) {
    const bool stayed = one.offset == offset(one.id);
    if (one.before.bytes > 0 && has(one.id) && !stayed) result.moved.push_back(one.id);
  }
}

// Packs everything anew: in the order of before, if that stays below `most`, or from nothing. False: no packing, and
// why.
bool Repacker::restart(std::span<const Displaced> displaced, int64_t most, Repacked& result) {
  std::vector<int64_t> before = arrangement_.offsets();
  for (const Displaced& one : displaced) before[one.id] = one.offset;
  const Everything all(arrangement_.buffers());
  if (fixed_.empty() && gap_ <= options_.tolerance) {  // else there is little order to keep
    if (const Placement pushed = push_up(all.buffers, all.of(before), most); !pushed.offsets.empty()) {
      take(all.by_id(pushed.offsets), before, result);
      return true;
    }
  }
  return pack_from_nothing(all, before, result);
}

// The first hint is what we have now.
bool Repacker::pack_from_nothing(const Everything& all, std::span<const int64_t> before, Repacked& result) {
  std::vector<Packing> hints;
  for (const Packing& earlier : searched_) {
    hints.push_back(
        {.offsets = all.of(hints.empty() ? before : earlier.offsets), .recipes = renamed(earlier.recipes, all.places)});
  }
  Result packed = pack_within_tolerance(all.buffers, hints);
  const bool good_enough = packed || !options_.packing.capacity;
  if (!good_enough || packed->offsets.size() != all.ids.size()) {
    result.outcome = packed.outcome;
    result.reason = std::move(packed.reason);
    return false;
  }
  result.from_nothing = true;
  const std::vector<int64_t> offsets = all.by_id(packed->offsets);
  keep({.offsets = offsets, .recipes = renamed(packed->recipes, all.ids)});
  take(offsets, before, result);
  bound_ = packed->bound;
  note_interval();
  return true;
}

// Without a capacity to keep to, the aim is half of the tolerance, unless that takes a search and the whole does not.
Result Repacker::pack_within_tolerance(std::span<const Buffer> buffers, std::span<const Packing> hints) const {
  Options options = options_.packing;
  options.hints = hints;
  if (options.capacity) return pack(buffers, options);
  options.capacity = ceiling(options_.tolerance / 2);
  if (!hints.empty()) return pack(buffers, options);
  options.node_limit = 0;
  Result packed = pack(buffers, options);
  if (packed->peak_bytes <= ceiling(options_.tolerance) || buffers.size() > kMostForSearch) return packed;
  options.node_limit = options_.packing.node_limit;
  return pack(buffers, options);
}

void Repacker::take(const std::vector<int64_t>& offsets, std::span<const int64_t> before, Repacked& result) {
  for (int32_t id = 0; id < arrangement_.size(); ++id) {
    if (has(id) && before[id] != Arrangement::kNowhere && before[id] != offsets[id]) result.moved.push_back(id);
  }
  arrangement_.put_all(offsets);
}

// A hint is worth its cost where packing takes a search. Many buffers hardly ever need one to stay within a tolerance.
void Repacker::keep(Packing packing) {
  constexpr size_t kMost = 8;
  constexpr size_t kMostBuffers = 1000;
  if (packing.recipes.empty() || packing.offsets.size() > kMostBuffers) return;
  searched_.insert(searched_.begin(), std::move(packing));
  if (searched_.size() > kMost) searched_.pop_back();
}

void Repacker::undo(std::span<const Displaced> displaced, std::span<const int32_t> added) {
  for (const Displaced& one : displaced) swap(one.id, one.before);
  for (const Displaced& one : displaced) {
    if (one.offset != Arrangement::kNowhere) arrangement_.put(one.id, one.offset);
  }
  free_ids_.insert(free_ids_.end(), added.begin(), added.end());
}

Bound Repacker::simple_bound() const {
  const Bound load = loads_.highest();
  if (fixed_.empty() || fixed_.rbegin()->first <= load.bytes) return load;
  const auto [end, id] = *fixed_.rbegin();
  return {end, Bound::Kind::fixed_offset, buffer(id).first, buffer(id).end};
}

// The capacity, or so much that the peak exceeds the bound by that share of it.
int64_t Repacker::ceiling(double gap) const {
  if (options_.packing.capacity) return *options_.packing.capacity;
  return bound_.bytes + static_cast<int64_t>(gap * static_cast<double>(bound_.bytes));
}

void Repacker::note_interval() {
  const auto bound = static_cast<double>(std::max<int64_t>(bound_.bytes, 1));
  gap_ = static_cast<double>(peak_bytes() - bound_.bytes) / bound;
}

}  // namespace plimsoll::pack
