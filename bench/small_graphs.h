// Small graphs for the comparison with the exact optimum: training steps in the shape of models, and random ones.
#pragma once

#include <algorithm>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "plimsoll/plan/step_graph.h"

namespace plimsoll::bench {

struct SmallGraph {
  std::string kind;
  plan::StepGraph graph;
};

class GraphBuilder {
 public:
  // A node that reads these storages and makes one; returns that.
  int32_t add(std::vector<int32_t> reads, int64_t bytes, double seconds, bool in_place, program::Phase phase) {
    std::sort(reads.begin(), reads.end());
    reads.erase(std::unique(reads.begin(), reads.end()), reads.end());
    const auto node = static_cast<int32_t>(graph_.nodes.size());
    const auto made = static_cast<int32_t>(graph_.storages.size());
    plan::GraphNode added;
    added.op = node;
    added.makes = {made};
    added.seconds = seconds;
    added.phase = phase;
    added.repeatable = true;
    added.repeatable_until = INT32_MAX;
    for (const int32_t read : reads) {
      graph_.storages[static_cast<size_t>(read)].events.push_back(node);
      if (in_place && graph_.storages[static_cast<size_t>(read)].bytes == bytes) added.in_place.push_back(read);
    }
    added.reads = std::move(reads);
    graph_.nodes.push_back(std::move(added));
    plan::GraphStorage storage;
    storage.bytes = bytes;
    storage.maker = node;
    storage.droppable = true;
    storage.events = {node};
    graph_.storages.push_back(std::move(storage));
    return made;
  }

  int64_t bytes(int32_t storage) const { return graph_.storages[static_cast<size_t>(storage)].bytes; }

  plan::StepGraph finish() && {
    graph_.storages.back().kept = true;
    graph_.storages.back().droppable = false;
    for (plan::GraphStorage& storage : graph_.storages) {
      storage.first_interval = graph_.intervals;
      graph_.intervals += static_cast<int32_t>(storage.events.size());
      graph_.storage_of_interval.resize(static_cast<size_t>(graph_.intervals),
                                        static_cast<int32_t>(&storage - graph_.storages.data()));
    }
    return std::move(graph_);
  }

 private:
  plan::StepGraph graph_;
};

// Forward nodes with random sizes and times, joined as `kind` says; then their gradients in reverse, each reading what
// came in and, for some, what went out.
inline SmallGraph training_graph(const std::string& kind, int layers, std::mt19937& random) {
  const auto draw = [&random](int low, int high) { return low + static_cast<int>(random() % (high - low + 1)); };
  GraphBuilder builder;
  std::vector<int32_t> made;
  std::vector<std::vector<int32_t>> read;
  for (int i = 0; i < layers; ++i) {
    std::vector<int32_t> reads;
    if (i > 0) reads.push_back(made.back());
    if (kind == "residual" && i >= 3 && i % 3 == 0) reads.push_back(made[static_cast<size_t>(i - 3)]);
    if (kind == "dense") reads.insert(reads.end(), made.begin() + std::max(0, i - 3), made.end());
    if (kind == "unet" && i > layers / 2) reads.push_back(made[static_cast<size_t>(layers - 1 - i)]);
    const int64_t bytes = 64 * draw(1, 8);
    made.push_back(builder.add(reads, bytes, draw(1, 10), draw(0, 2) == 0, program::Phase::forward));
    read.push_back(reads);
  }
  int32_t gradient = made.back();
  for (int i = layers - 1; i > 0; --i) {
    const auto place = static_cast<size_t>(i);
    std::vector<int32_t> reads = {gradient};
    reads.insert(reads.end(), read[place].begin(), read[place].end());
    if (draw(0, 2) == 0) reads.push_back(made[place]);
    gradient = builder.add(reads, builder.bytes(made[place - 1]), 2 * draw(1, 10), false, program::Phase::backward);
  }
  return {kind, std::move(builder).finish()};
}

inline SmallGraph random_graph(int nodes, std::mt19937& random) {
  GraphBuilder builder;
  for (int i = 0; i < nodes; ++i) {
    std::vector<int32_t> reads;
    if (i > 0) reads.push_back(i - 1);
    for (int j = 0; i > 0 && j < static_cast<int>(random() % 3); ++j)
      reads.push_back(static_cast<int32_t>(random() % i));
    const auto bytes = static_cast<int64_t>(64 * (1 + random() % 8));
    builder.add(reads, bytes, static_cast<double>(1 + random() % 10), random() % 3 == 0,
                2 * i < nodes ? program::Phase::forward : program::Phase::backward);
  }
  return {"random", std::move(builder).finish()};
}

}  // namespace plimsoll::bench
