// A partial packing of the complete search, with everything that follows from it.
//
// Buffers are placed on top of what they overlap, never below it. So a state is the unplaced buffers, each with two
// offsets: `resting`, where it would lie if placed now, and `lowest`, a proven lower limit for where it can end up.
// A buffer whose lowest offset exceeds its resting one waits: another buffer must first go below it.
//
// What is deduced (see docs/packing.md for the proofs):
//   sections   in each section some unplaced buffer comes next, and the rest must still fit above its offset;
//   not first  those that cannot come next go above the lowest end of one that can;
//   support    a waiting buffer must rest on one that reaches into the room where it would lie now;
//   symmetry   of equal buffers the one with the smaller index goes below.
//
// Every change is on a trail and can be undone. Offsets are in units of the instance.
#pragma once

#include <cstdint>
#include <vector>

#include "plimsoll/pack/bits.h"
#include "plimsoll/pack/instance.h"
#include "plimsoll/pack/pack.h"

namespace plimsoll::pack {

class State {
 public:
  State(const Instance& instance, const Inference& inference);

  // Nothing placed, for an arena of `capacity` units. False when a contradiction is found at once.
  bool reset(int64_t capacity);

  // Puts an unplaced buffer at its resting offset / rules that offset out. False on a contradiction; then only undo
  // may follow.
  bool place(int32_t buffer);
  bool pass_over(int32_t buffer);

  size_t mark() const { return trail_.size(); }
  void undo(size_t mark);

  const Instance& instance() const { return instance_; }
  const BitSet& unplaced() const { return unplaced_; }
  const uint64_t* members(int32_t section) const { return members_.row(section); }
  const uint64_t* conflicts(int32_t buffer) const { return conflicts_.row(buffer); }
  int32_t words() const { return conflicts_.words(); }

  int64_t resting(int32_t buffer) const { return resting_[buffer]; }
  int64_t lowest(int32_t buffer) const { return lowest_[buffer]; }
  bool waits(int32_t buffer) const { return lowest_[buffer] > resting_[buffer]; }
  // It may be placed now: it does not wait, and no unplaced buffer fits below it.
  bool placeable(int32_t buffer) const;

  // The sections that say something of their own: a buffer of it is unplaced, and no neighbour has all of those.
  const BitSet& speaking() const { return speaking_; }
  // Of these: how many buffers can come next, and how much room can be wasted before the rest no longer fits.
  int32_t choices(int32_t section) const { return choices_[section]; }
  int64_t slack(int32_t section) const { return limits_[section] - floors_[section]; }
  // A buffer can come next in a section when it lies no higher than this.
  int64_t limit(int32_t section) const { return limits_[section]; }
  // No unplaced buffer lives both in `section` and in the next one.
  bool cut_after(int32_t section) const { return crossings_[section] == 0; }

 private:
  enum class Kind : int8_t { offsets, placed, section };
  struct Change {
    Kind kind;
    int32_t index;
    int32_t choices;  // before
    int64_t first;    // resting or floor before
    int64_t second;   // lowest or lowest top before
  };

  void list_fixed_near();
  bool place_fixed();
  bool put(int32_t buffer);
  void order_twins();
  void shift(int32_t buffer, int64_t sign);
  void note_speaking(int32_t section);
  void record(int32_t buffer) { trail_.push_back({Kind::offsets, buffer, 0, resting_[buffer], lowest_[buffer]}); }
  void note_waiting(int32_t buffer);
  bool raise_lowest(int32_t buffer, int64_t offset);
  bool rest_on(int32_t buffer, int64_t top);
  int64_t lift_over_fixed(int32_t buffer, int64_t offset) const;
  void touch_sections(int32_t buffer, int64_t lowest_before);
  void touch_waiting(int32_t buffer, int64_t lowest_before);
  bool propagate();
  bool deduce_section(int32_t section);
  bool deduce_support(int32_t buffer);
  int64_t lowest_support(int32_t buffer, int64_t enough) const;

  const Instance& instance_;
  const Inference inference_;
  int64_t capacity_ = 0;
  BitRows conflicts_;  // buffers that share a section with this one
  BitRows members_;    // buffers of a section
  BitSet unplaced_;
  BitSet waiting_;                                // those of the unplaced that wait
  std::vector<int32_t> fixed_;                    // buffers with fixed offsets, by offset
  std::vector<std::vector<int32_t>> fixed_near_;  // those of them that conflict with a buffer; empty when none is fixed
  std::vector<int32_t> next_twin_;                // an equal buffer that goes above this one, or -1
  std::vector<int64_t> resting_;
  std::vector<int64_t> lowest_;
  std::vector<int64_t> limits_;  // capacity less the unplaced sizes of the section
  // Of each section that speaks, at rest: the lowest `lowest`, the lowest end of a buffer that can come next, and how
  // many can.
  std::vector<int64_t> floors_;
  std::vector<int64_t> lowest_tops_;
  std::vector<int32_t> choices_;
  std::vector<int32_t> starts_;     // unplaced spans that begin with the section
  std::vector<int32_t> ends_;       // unplaced spans that end with it
  std::vector<int32_t> crossings_;  // unplaced buffers whose hull holds a section and the next
  BitSet speaking_;
  BitSet dirty_sections_;
  BitSet dirty_buffers_;
  std::vector<Change> trail_;
};

}  // namespace plimsoll::pack
