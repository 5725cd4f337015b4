#include "plimsoll/pack/occupancy.h"

#include <algorithm>
#include <bit>

namespace plimsoll::pack {
namespace {

int32_t level_of(const Area& area) {
  const uint64_t lifetime = static_cast<uint64_t>(area.end) - static_cast<uint64_t>(area.first);
  return static_cast<int32_t>(std::bit_width(lifetime)) - 1;
}

bool meet(const Area& a, const Area& b) {
  return a.first < b.end && b.first < a.end && a.low < b.high && b.low < a.high;
}

}  // namespace

Occupancy::Top::Top(std::span<const Entry> entries) {
  for (const Entry& entry : entries) high = std::max(high, entry.area.high);
}

Occupancy::Entry Occupancy::entry_of(const Tenant& tenant) { return {tenant.area, tenant.id, level_of(tenant.area)}; }

Occupancy::Occupancy(std::span<const Tenant> tenants) {
  std::vector<Entry> entries;
  entries.reserve(tenants.size());
  for (const Tenant& tenant : tenants) {
    entries.push_back(entry_of(tenant));
    ++count_by_level_[entries.back().level];
  }
  entries_ = SortedBlocks<Entry, Top>(std::move(entries));
}

void Occupancy::insert(const Tenant& tenant) {
  const Entry entry = entry_of(tenant);
  entries_.insert(entry);
  ++count_by_level_[entry.level];
}

void Occupancy::erase(const Tenant& tenant) {
  const Entry entry = entry_of(tenant);
  entries_.erase(entry);
  --count_by_level_[entry.level];
}

bool Occupancy::all_within(const Area& window, int64_t most_cells,
                           const std::function<bool(const Tenant&)>& accept) const {
  for (int32_t level = 63; level >= 0; --level) {
    if (count_by_level_[level] > 0 && !all_of_level(level, window, most_cells, accept)) return false;
  }
  return true;
}

bool Occupancy::all_of_level(int32_t level, const Area& window, int64_t& cells_left,
                             const std::function<bool(const Tenant&)>& accept) const {
  const int64_t last = (window.end - 1) >> level;
  // What begins two cells earlier can still be alive.
  for (int64_t cell = std::max((INT64_MIN >> level) + 2, window.first >> level) - 2; cell <= last;) {
    if (--cells_left < 0) return false;
    const auto in_cell = [&](auto at) { return entries_[at].level == level && entries_[at].cell() == cell; };
    const Entry from{
        {.first = static_cast<int64_t>(static_cast<uint64_t>(cell) << level), .low = window.low}, 0, level};
    auto at = entries_.lower_bound(from);
    if (!entries_.at_begin(at) && in_cell(entries_.previous(at))) at = entries_.previous(at);
    for (; !entries_.at_end(at) && in_cell(at) && entries_[at].area.low < window.high; at = entries_.next(at)) {
      const Entry& entry = entries_[at];
      if (meet(entry.area, window) && !accept({entry.area, entry.id})) return false;
    }
    if (entries_.at_end(at) || entries_[at].level != level) return true;
    cell = std::max(cell + 1, entries_[at].cell());
  }
  return true;
}

bool Occupancy::is_free(const Area& window, int64_t most_cells) const {
  return all_within(window, most_cells, [](const Tenant&) { return false; });
}

int64_t Occupancy::highest() const {
  int64_t high = 0;
  for (const auto& block : entries_.blocks()) high = std::max(high, block.summary.high);
  return high;
}

std::vector<Tenant> Occupancy::reaching_above(int64_t limit) const {
  std::vector<Tenant> found;
  for (const auto& block : entries_.blocks()) {
    if (block.summary.high <= limit) continue;
    for (const Entry& entry : block.items) {
      if (entry.area.high > limit) found.push_back({entry.area, entry.id});
    }
  }
  return found;
}

}  // namespace plimsoll::pack
