// Finds a place for a few buffers in an arrangement of many, at a cost that depends on the few. Each stays where it was
// if it can; else it goes where another one of them was, into the lowest gap between those that live with it, or where
// smaller ones can make room for it, which then look for a place themselves. Where too many live at once for that, what
// is left over goes on top of everything.
#pragma once

#include <cstdint>
#include <limits>
#include <span>
#include <unordered_set>
#include <vector>

#include "plimsoll/pack/arrangement.h"
#include "plimsoll/pack/holes.h"

namespace plimsoll::pack {

// A buffer that lies nowhere now, or that is no more, and what it was.
struct Displaced {
  int32_t id = 0;
  Buffer before = {};                      // of 0 bytes: it is new
  int64_t offset = Arrangement::kNowhere;  // then
};

class Patch {
 public:
  // Nothing may end above `ceiling`.
  Patch(Arrangement& arrangement, int64_t ceiling) : arrangement_(arrangement), ceiling_(ceiling) {}

  // Whether all have a place. If not, some have none, and all is to be put back.
  bool settle(std::span<const Displaced> displaced);

  // Others that had to make room, each once; what they were.
  const std::vector<Displaced>& ejected() const { return ejected_; }

 private:
  struct Neighbour {
    int64_t low;
    int64_t high;
    int32_t id;
  };

  const Buffer& buffer(int32_t id) const { return arrangement_.buffer(id); }
  bool lies(int32_t id) const { return arrangement_.offset(id) != Arrangement::kNowhere; }

  bool may_be_at(const Buffer& one, int64_t offset) const {
    return offset >= 0 && offset % one.alignment == 0 && offset + one.bytes <= ceiling_;
  }

  bool settle_fixed(int32_t id);
  void settle_inside(const Displaced& displaced);
  void settle_grown(const Displaced& displaced);
  void fill_holes(std::span<const Displaced> displaced);
  void put_outside(int32_t id, int64_t offset);

  bool settle_all(std::vector<int32_t> ids);
  bool settle_among_neighbours(int32_t id);
  bool gather(const Buffer& buffer, std::vector<Neighbour>& neighbours);
  bool settle_by_ejection(int32_t id, const std::vector<Neighbour>& neighbours);
  int64_t cheapest_offset(const Buffer& buffer, const std::vector<Neighbour>& neighbours) const;
  double price(int32_t ejected, const Buffer& by) const;
  void eject(int32_t id);
  bool settle_on_top();

  Arrangement& arrangement_;
  int64_t ceiling_;
  Occupancy outside_;                    // what was put where it was not before, holes not looked at
  std::unordered_set<int32_t> touched_;  // displaced or ejected
  std::vector<Displaced> ejected_;
  std::vector<int32_t> homeless_;  // ejected last, and without a place
  std::vector<int32_t> left_over_;
  int64_t visits_left_ = 0;                                    // of neighbours
  double too_long_ = std::numeric_limits<double>::infinity();  // a lifetime in which there were too many of them
};

}  // namespace plimsoll::pack
