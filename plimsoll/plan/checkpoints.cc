#include <algorithm>

#include "plimsoll/plan/search.h"

namespace plimsoll::plan {
namespace {

size_t at(int32_t place) { return static_cast<size_t>(place); }

// How many nodes stand before the first of the backward pass.
int32_t forward_nodes(const StepGraph& graph) {
  const auto backward = std::find_if(graph.nodes.begin(), graph.nodes.end(),
                                     [](const GraphNode& node) { return node.phase == program::Phase::backward; });
  return static_cast<int32_t>(backward - graph.nodes.begin());
}

// Events of the storage before `time`.
size_t events_before(const GraphStorage& storage, int32_t time) {
  const auto found = std::lower_bound(storage.events.begin(), storage.events.end(), time);
  return static_cast<size_t>(found - storage.events.begin());
}

bool crosses(const GraphStorage& storage, int32_t cut, int32_t forward) {
  const size_t in_forward = events_before(storage, forward);
  return in_forward > 0 && storage.maker < cut && storage.events[in_forward - 1] >= cut;
}

// Bytes that a checkpoint before each forward node would hold.
std::vector<int64_t> cut_bytes(const StepGraph& graph, int32_t forward) {
  std::vector<int64_t> bytes(at(forward) + 1, 0);
  for (const GraphStorage& storage : graph.storages) {
    const size_t in_forward = events_before(storage, forward);
    if (in_forward < 2) continue;
    for (int32_t cut = storage.maker + 1; cut <= storage.events[in_forward - 1]; ++cut) bytes[at(cut)] += storage.bytes;
  }
  return bytes;
}

// Bytes made by the forward nodes before each that are read after the forward pass.
std::vector<int64_t> saved_before(const StepGraph& graph, int32_t forward) {
  std::vector<int64_t> saved(at(forward) + 1, 0);
  for (const GraphStorage& storage : graph.storages) {
    if (storage.maker < forward && storage.events.back() >= forward) saved[at(storage.maker) + 1] += storage.bytes;
  }
  for (size_t i = 1; i < saved.size(); ++i) saved[i] += saved[i - 1];
  return saved;
}

}  // namespace

Holds checkpoints_at(const StepGraph& graph, const std::vector<int32_t>& cuts, bool anew) {
  Holds holds = hold_all(graph);
  const int32_t forward = forward_nodes(graph);
  const int32_t last_cut = anew ? forward : cuts.empty() ? 0 : cuts.back();
  for (const GraphStorage& storage : graph.storages) {
    if (!storage.droppable || storage.maker >= last_cut) continue;
    const size_t in_forward = events_before(storage, forward);
    const auto interval = at(storage.first_interval) + in_forward - 1;
    const bool is_checkpoint =
        std::any_of(cuts.begin(), cuts.end(), [&](int32_t cut) { return crosses(storage, cut, forward); });
    if (is_checkpoint) {
      holds.intervals[interval] = {};
    } else {
      holds.intervals[interval] = anew ? kNeverResident : evicted_at(storage.events[in_forward - 1]);
    }
  }
  return holds;
}

Holds checkpoints(const StepGraph& graph, int segments, bool anew) {
  const int32_t forward = forward_nodes(graph);
  const std::vector<int64_t> crossing = cut_bytes(graph, forward);
  const std::vector<int64_t> saved = saved_before(graph, forward);
  std::vector<int32_t> cuts;
  int32_t first = 1;
  for (int i = 1; i < segments && first < forward; ++i) {
    const int64_t target = saved.back() / segments * i;
    const int64_t slack = saved.back() / segments / 3;
    const auto begin = std::max<int32_t>(
        first, static_cast<int32_t>(std::lower_bound(saved.begin(), saved.end(), target - slack) - saved.begin()));
    const auto end = std::max<int32_t>(
        begin + 1, static_cast<int32_t>(std::lower_bound(saved.begin(), saved.end(), target + slack) - saved.begin()));
    if (begin >= forward) break;
    const auto last = std::min(end, forward);
    const auto best = std::min_element(crossing.begin() + begin, crossing.begin() + last) - crossing.begin();
    cuts.push_back(static_cast<int32_t>(best));
    first = cuts.back() + 1;
  }
  return checkpoints_at(graph, cuts, anew);
}

}  // namespace plimsoll::plan
