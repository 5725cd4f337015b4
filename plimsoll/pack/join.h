// Buffers joined into larger ones: two of one lifetime into a stack, two of one size into a chain, where the second
// begins when the first ends, five into a pinwheel, which no straight cut parts. Any packing of what is left, expanded,
// is a packing of them all with the same peak. So a join never makes a packing wrong, only one too high, when what was
// joined does not belong together.
//
// Where the arena is full, what dies leaves a place that others must fill exactly, and neighbours of a perfect packing
// have a side in common. Which of those that match belong together is found by joining all, taking some joins apart
// around a moment, and joining again in another order, for as long as less and less is left.
#pragma once

#include <array>
#include <cstdint>
#include <random>
#include <vector>

#include "plimsoll/pack/greedy.h"
#include "plimsoll/pack/instance.h"

namespace plimsoll::pack {

class Joins {
 public:
  // Buffers without gaps, alignments and fixed offsets only. Joins what matches until nothing does. Where less than
  // `capacity` units are alive, holes take part like buffers, so that it looks full; or, with `loosely`, also what
  // matches only nearly is joined, as far as the load with what that wastes stays within the capacity.
  Joins(const Instance& instance, int64_t capacity, bool loosely, uint64_t seed);

  // Takes some joins apart and joins again; back to what was when more is left then. O(what lives at one moment).
  void vary();

  int32_t left() const { return static_cast<int32_t>(roots_.size()); }
  Instance instance() const;                        // of what is left, but for holes
  Placement expanded(const Placement& left) const;  // of all buffers

 private:
  struct Part {
    int32_t node = -1;  // none
    int64_t offset = 0;
  };
  struct Node {
    Span life;
    int64_t size = 0;
    std::array<Part, 5> parts = {};  // those there are come first
    int32_t place = -1;              // among the roots; -1: part of another, or not made yet

    bool is_leaf() const { return parts[0].node < 0; }
  };
  struct Change {
    int32_t node;
    bool inserted;
  };

  void add_holes(int64_t capacity);
  bool is_hole(int32_t node) const { return whole_->count() <= node && nodes_[node].is_leaf(); }
  std::vector<int32_t> parts_left() const;
  bool is_root(int32_t node) const { return nodes_[node].place >= 0; }
  void insert(int32_t node);
  void remove(int32_t node);
  void keep();
  void undo();
  void compact();
  void take_apart(int32_t node, int32_t time, int depth);
  void join();
  void join_matches();
  bool can_be_produced(const Node& node) const;
  void make(const Node& node);
  void find_matches(int32_t node);
  void match_stack(int32_t below, int32_t above);
  void match_chain(int32_t before, int32_t after);
  void find_pinwheels(int32_t node);
  void find_loose_matches(int32_t node);
  void match_loosely(Span life, int64_t size, const Part& a, const Part& b);
  void add_load(const Node& node, int64_t sign);
  bool fits(const Node& node) const;
  void match_pinwheels(int32_t centre);
  int32_t random_moment();

  const Instance* whole_;
  int64_t capacity_;
  bool loosely_;
  std::mt19937_64 random_;
  std::vector<int64_t> loads_;                  // of the roots, what they waste included; empty when nothing does
  std::vector<Node> nodes_;                     // leaves first; the parts of a node come before it
  std::vector<int32_t> roots_;                  // what is left
  std::vector<std::vector<int32_t>> starting_;  // roots, by the section that they start with / end before
  std::vector<std::vector<int32_t>> ending_;
  std::vector<int32_t> fresh_;   // roots whose matches have not been looked for
  std::vector<int32_t> alone_;   // roots, then, that may be part of a pinwheel
  std::vector<Node> matches_;    // nodes that can be made, but for some that are out of date
  std::vector<Change> changes_;  // of the roots, and the number of nodes, since the last state that was kept
  size_t kept_nodes_ = 0;
};

}  // namespace plimsoll::pack
