#include "plimsoll/plan/bounds.h"

#include <algorithm>
#include <utility>
#include <vector>

namespace plimsoll::plan {
namespace {

size_t at(int32_t place) { return static_cast<size_t>(place); }

// What comes in, and each node run once.
int64_t always_taken(const StepGraph& graph) {
  return graph.resident_bytes + static_cast<int64_t>(graph.nodes.size()) * graph.step_bytes;
}

bool must_stay(const StepGraph& graph, const GraphStorage& storage, int32_t next_event) {
  const GraphNode& maker = graph.nodes[at(storage.maker)];
  return !storage.spillable && (!storage.droppable || maker.repeatable_until < next_event);
}

// Calls `visit(storage, node, stays)` for every storage that is wanted before and after a node which does not touch it.
template <class Visit>
void for_each_bystander(const StepGraph& graph, const Visit& visit) {
  const auto nodes = static_cast<int32_t>(graph.nodes.size());
  for (const GraphStorage& storage : graph.storages) {
    for (size_t i = 0; i < storage.events.size(); ++i) {
      const bool is_last = i + 1 == storage.events.size();
      if (is_last && !storage.kept) break;
      const int32_t end = is_last ? nodes : storage.events[i + 1];
      const bool stays = must_stay(graph, storage, end);
      for (int32_t node = storage.events[i] + 1; node < end; ++node) visit(storage, node, stays);
    }
  }
}

// What can be given up around one node: results of one op, which its time brings back together.
struct Item {
  int32_t maker = 0;
  int64_t bytes = 0;
};

// A disk that takes so many bytes, for so much time each.
struct Disk {
  double bytes = 0;
  double price = 0;
};

double price_of(const StepGraph& graph, const Item& item) {
  return graph.nodes[at(item.maker)].seconds / static_cast<double>(item.bytes);
}

// The least time that frees so many bytes, were ops divisible. The items are in the order of their price.
double cheapest_seconds(const StepGraph& graph, const std::vector<Item>& items, double over_bytes, Disk disk) {
  double seconds = 0;
  const auto take = [&](double bytes, double price) {
    const double taken = std::clamp(over_bytes, 0.0, bytes);
    seconds += taken * price;
    over_bytes -= taken;
  };
  for (const Item& item : items) {
    const double price = price_of(graph, item);
    if (price > disk.price) take(std::exchange(disk.bytes, 0), disk.price);
    take(static_cast<double>(item.bytes), price);
  }
  return seconds;
}

// The disk writes and reads back no more than there is time for in the step, which is longer by what is looked for.
double cheapest_with_disk(const StepGraph& graph, std::vector<Item>& items, int64_t over_bytes) {
  constexpr int kHalvings = 20;
  std::sort(items.begin(), items.end(),
            [&](const Item& a, const Item& b) { return price_of(graph, a) < price_of(graph, b); });
  const auto over = static_cast<double>(over_bytes);
  const double step = graph.seconds();
  double high = cheapest_seconds(graph, items, over, {});
  double low = 0;
  for (int i = 0; graph.can_spill() && i < kHalvings; ++i) {
    const double middle = (low + high) / 2;
    const Disk disk{(step + middle) * graph.spill.bytes_per_s / 2, 2 * graph.spill.processor_s_per_byte};
    (cheapest_seconds(graph, items, over, disk) > middle ? low : high) = middle;
  }
  return graph.can_spill() ? low : high;
}

}  // namespace

MemoryBound least_bytes(const StepGraph& graph) {
  std::vector<int64_t> bytes(graph.nodes.size(), always_taken(graph));
  for (size_t node = 0; node < bytes.size(); ++node) bytes[node] += graph.working_bytes(static_cast<int32_t>(node));
  for_each_bystander(graph, [&](const GraphStorage& storage, int32_t node, bool stays) {
    if (stays) bytes[at(node)] += storage.bytes;
  });
  if (bytes.empty()) return {always_taken(graph), 0};
  const auto most = std::max_element(bytes.begin(), bytes.end());
  return {*most, static_cast<int32_t>(most - bytes.begin())};
}

double least_seconds(const StepGraph& graph, int64_t limit_bytes) {
  std::vector<int64_t> over(graph.nodes.size(), always_taken(graph) - limit_bytes);
  std::vector<std::vector<Item>> items(graph.nodes.size());
  for (size_t node = 0; node < over.size(); ++node) over[node] += graph.working_bytes(static_cast<int32_t>(node));
  for_each_bystander(graph, [&](const GraphStorage& storage, int32_t node, bool stays) {
    over[at(node)] += storage.bytes;
    if (stays) return;
    std::vector<Item>& there = items[at(node)];
    if (there.empty() || there.back().maker != storage.maker) there.push_back({storage.maker, 0});
    there.back().bytes += storage.bytes;
  });
  double most = 0;
  for (size_t node = 0; node < over.size(); ++node) {
    if (over[node] > 0) most = std::max(most, cheapest_with_disk(graph, items[node], over[node]));
  }
  return graph.seconds() + most;
}

}  // namespace plimsoll::plan
