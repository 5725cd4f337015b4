// A prepared program as the search sees it: the ops that do work, the storages between them, and when each is read.
// Views and values are gone, bytes are as the arena rounds them.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "plimsoll/kernels/prepare.h"
#include "plimsoll/plan/spill_options.h"
#include "plimsoll/program/program.h"

namespace plimsoll::plan {

// A storage that some op makes. What comes in is not here: it is always there (StepGraph::resident_bytes).
struct GraphStorage {
  program::Value owner;
  int64_t bytes = 0;            // rounded up to the alignment of the arena
  int32_t maker = 0;            // node
  bool optional = false;        // its maker can leave it out
  bool kept = false;            // the caller reads it after the step, so it stays once it is made
  bool droppable = false;       // can be made again
  bool spillable = false;       // can go to the spill file and come back
  std::vector<int32_t> events;  // nodes in order: its maker, then those that read it, each once
  int32_t first_interval = 0;   // number of the time between events 0 and 1; the others follow, then the time after all
};

struct GraphNode {
  int32_t op = 0;              // of the program
  std::vector<int32_t> reads;  // storages, each once
  std::vector<int32_t> makes;
  std::vector<int32_t> in_place;  // of `reads`: result 0 may take the memory of one of these that dies here
  int64_t scratch_bytes = 0;
  double seconds = 0;
  program::Phase phase = program::Phase::forward;
  bool repeatable = false;
  int32_t repeatable_until = 0;  // a run right before this node still finds its operands as they were
};

struct StepGraph {
  std::vector<GraphNode> nodes;
  std::vector<GraphStorage> storages;
  int64_t resident_bytes = 0;
  int64_t step_bytes = 0;  // that each step of a plan takes beside the arena, of the same budget
  int32_t intervals = 0;
  std::vector<int32_t> storage_of_interval;
  SpillOptions spill = {};

  bool can_spill() const { return spill.bytes_per_s > 0; }
  // The gap that a storage is in when it is the turn of node `time`, before that runs.
  int32_t interval_at(int32_t storage, int32_t time) const;
  // When a gap begins: the time of the event before it.
  int32_t begin_of(int32_t interval) const;

  double seconds() const;  // of all nodes, each once
  // The bytes that a node needs to itself: operands, results and scratch, less what it can make in place.
  int64_t working_bytes(int32_t node) const;
};

// `seconds` is one figure for each op of the program.
StepGraph make_step_graph(const kernels::Lowered& lowered, std::span<const double> seconds,
                          const SpillOptions& spill = {});

}  // namespace plimsoll::plan
