#include "plimsoll/trace/trace.h"

#include <algorithm>

namespace plimsoll::trace {

uint32_t TagTable::intern(Category category, std::string_view name) {
  if (category == Category::other && name.empty()) return 0;
  std::string key;
  key.reserve(name.size() + 1);
  key += static_cast<char>(category);
  key += name;
  const auto [entry, added] = index_.try_emplace(std::move(key), static_cast<uint32_t>(tags_.size()));
  if (added) tags_.push_back({category, std::string(name)});
  return entry->second;
}

int64_t live_peak_bytes(const Trace& trace) {
  int64_t live = 0;
  int64_t peak = 0;
  for (const Event& event : trace.events) {
    live += event.kind == EventKind::alloc ? event.bytes : -event.bytes;
    peak = std::max(peak, live);
  }
  return peak;
}

}  // namespace plimsoll::trace
