#include "plimsoll/plan/placement.h"

#include <algorithm>

#include "plimsoll/base/bytes.h"
#include "plimsoll/base/error.h"
#include "plimsoll/pack/pack.h"

namespace plimsoll::plan {
namespace {

constexpr double kNoTimeLimit = 1e9;  // what a slow machine cuts short would differ from run to run

int64_t sum(int64_t a, int64_t b) {
  const auto total = checked_add(a, b);
  if (!total) throw ArgumentError("the buffers of the step together take more bytes than fit in 63 bits");
  return *total;
}

}  // namespace

Placement place(const Liveness& liveness, const PlacementOptions& options) {
  Placement placement;
  placement.offsets.resize(liveness.buffers.size(), 0);
  std::vector<pack::Buffer> moving;
  std::vector<size_t> places;  // of those in the liveness
  int64_t fixed = 0;
  for (size_t i = 0; i < liveness.buffers.size(); ++i) {
    const Buffer& buffer = liveness.buffers[i];
    if (buffer.bytes == 0) continue;
    const int64_t bytes = align_up(buffer.bytes, options.alignment);
    if (buffer.persistent) {
      placement.offsets[i] = fixed;
      fixed = sum(fixed, bytes);
    } else {
      moving.push_back({.bytes = bytes, .first = buffer.first, .end = buffer.end});
      places.push_back(i);
    }
  }
  pack::Options search{.time_limit_s = kNoTimeLimit, .node_limit = options.search_nodes};
  if (options.enough_bytes) search.capacity = std::max<int64_t>(0, *options.enough_bytes - fixed);
  const pack::Result packed = pack::pack(moving, search);
  for (size_t j = 0; j < places.size(); ++j) placement.offsets[places[j]] = fixed + packed->offsets[j];
  placement.arena_bytes = sum(fixed, packed->peak_bytes);
  placement.optimal = packed->optimal;
  return placement;
}

}  // namespace plimsoll::plan
