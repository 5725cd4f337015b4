// Buffers joined into larger ones: two of one lifetime into a stack, two of one size into a chain, where the second
// begins when the first ends. Any packing of what is left, expanded, is a packing of them all, with the same peak; so
// joins never make a packing wrong, only one too high when what was joined does not belong together.
//
// Where the arena is full, what dies leaves a place that others must fill exactly, so neighbours of a perfect packing
// are found by what they have in common. The more such a match is to be expected by chance, the later it is believed.
#pragma once

#include <cstdint>
#include <random>
#include <vector>

#include "plimsoll/pack/greedy.h"
#include "plimsoll/pack/instance.h"

namespace plimsoll::pack {

class Joining {
 public:
  // Buffers without gaps, alignments and fixed offsets only.
  explicit Joining(const Instance& instance);

  // Joins what matches until nothing does whose `chance` is at most `most`: the number of such matches to be expected
  // at that place if sizes and lifetimes were drawn at random. `noise` shuffles the order of the joins.
  void join(double most, double noise, std::mt19937_64& random);

  // What is joined now, to come back to. Valid until the next `compact`.
  struct Mark {
    std::vector<int32_t> roots;
    size_t nodes;
  };
  Mark mark() const { return {roots_, nodes_.size()}; }
  void undo(const Mark& mark);
  // Takes some joins apart around a moment chosen at random.
  void ruin(std::mt19937_64& random);

  int32_t left() const { return static_cast<int32_t>(roots_.size()); }
  Instance instance() const;                        // of what is left
  Placement expanded(const Placement& left) const;  // of all buffers

 private:
  enum class Kind : uint8_t { leaf, stack, chain };
  // In a stack `lower` lies below the other, in a chain it lives before it.
  struct Node {
    Span life;
    int64_t size;
    Kind kind = Kind::leaf;
    int32_t lower = -1;
    int32_t upper = -1;
  };
  struct Match {
    double chance;
    int32_t lower;
    int32_t upper;
    Kind kind;
  };

  std::vector<Match> matches(std::mt19937_64& random);
  void match_stacks(std::vector<Match>& found);
  void match_chains(std::vector<Match>& found);
  void count_ends();
  bool apply(const Match& match);
  void dissolve(int32_t node, int32_t time, int depth);

  const Instance& whole_;
  std::vector<Node> nodes_;
  std::vector<int32_t> roots_;
  std::vector<bool> joined_;  // of the nodes: it has become part of another in this round
  std::vector<int32_t> starts_;
  std::vector<int32_t> ends_;
};

}  // namespace plimsoll::pack
