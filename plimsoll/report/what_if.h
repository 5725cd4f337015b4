// The same history with something otherwise: half the batch, activations in half the bytes, checkpointing, no leak; and
// what each allocator would have reserved for it, by replay.
#pragma once

#include "plimsoll/explain/explain.h"
#include "plimsoll/explain/timeline.h"
#include "plimsoll/report/page.h"

namespace plimsoll::report {

struct RecordedHistory {
  const explain::Input& input;
  const explain::DeviceState& device;
  const explain::Timeline& timeline;
};

// The lifetimes that a page's blocks are, in their order. What no memory has (a corrupt recording) is left out, so that
// sums of them fit.
std::vector<const explain::Lifetime*> drawn_lifetimes(const explain::Timeline& timeline);

// Adds switches, allocators and views to a page whose first timeline has the history's blocks; marks the blocks that
// the switches affect. Peaks count up to the failure, with its request granted.
void add_what_if(Page& page, const RecordedHistory& history);

}  // namespace plimsoll::report
