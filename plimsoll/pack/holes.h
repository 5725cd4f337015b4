// Areas known to be free, by size. What fits into one of them can lie there, whatever else there is.
#pragma once

#include <cstdint>
#include <map>
#include <optional>

#include "plimsoll/pack/occupancy.h"
#include "plimsoll/pack/pack.h"

namespace plimsoll::pack {

class Holes {
 public:
  // Must be free, and apart from all others.
  void add(const Area& area);

  // The offset of a hole that holds the buffer all its life and ends no higher than `ceiling`, of those tried the
  // smallest; the rest of the hole stays one. Tries a few dozen of the smallest that are large enough.
  std::optional<int64_t> take(const Buffer& buffer, int64_t ceiling);

 private:
  std::multimap<int64_t, Area> by_bytes_;
};

}  // namespace plimsoll::pack
