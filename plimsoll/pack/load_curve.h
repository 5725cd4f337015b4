// The live load over time, kept up to date as buffers come and go: the bytes alive at a time are what has begun until
// then less what has ended. A change takes logarithmic time but for one block of steps; nothing is approximate.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include "plimsoll/pack/pack.h"
#include "plimsoll/pack/sorted_blocks.h"

namespace plimsoll::pack {

class LoadCurve {
 public:
  explicit LoadCurve(std::span<const Buffer> buffers);

  void add(const Buffer& buffer);
  void remove(const Buffer& buffer);  // that was added

  // The largest live load, and the first time it is reached. Nothing alive: none.
  Bound highest() const;

 private:
  // The load rises or falls by so much. At one time the falls come first.
  struct Step {
    int64_t time = 0;
    int64_t bytes = 0;
    bool operator<(const Step& other) const { return time != other.time ? time < other.time : bytes < other.bytes; }
  };
  // Of a run of steps, from the load before it.
  struct Rise {
    explicit Rise(std::span<const Step> steps) {
      for (const Step& step : steps) highest = std::max(highest, total += step.bytes);
    }
    int64_t total = 0;
    int64_t highest = 0;
  };

  SortedBlocks<Step, Rise> steps_;
};

}  // namespace plimsoll::pack
