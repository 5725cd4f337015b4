// Packs again and again as buffers come, go and change, each time at about the cost of the change: it keeps an index of
// what lies where and when, finds places for what has changed and leaves the rest alone. Where that would take too much
// memory it pushes up what is in the way, in one pass over all buffers, or packs from nothing, and says so.
//
//   Repacker repacker(buffers, *pack(buffers));
//   const Repacked now = repacker.change({.replaced = {{7, larger}}, .added = {another}});
//   repacker.offset(now.added.front());
//
// Buffers have ids: at first their indices, later the ones that `change` gives out, which may be those of buffers that
// were removed. Takes about 150 bytes a buffer. Not thread-safe.
#pragma once

#include <cstdint>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "plimsoll/pack/arrangement.h"
#include "plimsoll/pack/load_curve.h"
#include "plimsoll/pack/pack.h"
#include "plimsoll/pack/patch.h"

namespace plimsoll::pack {

struct RepackOptions {
  // Of packing from nothing. With a capacity, any packing within it will do. The hints are the repacker's own.
  Options packing = {};
  // Without one: by how much of the lower bound the peak may exceed it before everything is packed anew. Where packing
  // from nothing does not come closer than half of that, changes may add another half to what it gives.
  double tolerance = 0.01;
};

struct Replacement {
  int32_t id = 0;
  Buffer buffer = {};
};

struct Change {
  std::vector<int32_t> removed = {};
  std::vector<Replacement> replaced = {};
  std::vector<Buffer> added = {};
};

struct Repacked {
  Result::Outcome outcome = Result::Outcome::packed;
  std::string reason = {};          // why there is no packing; nothing has changed then
  std::vector<int32_t> added = {};  // the ids of the added buffers, in their order
  std::vector<int32_t> moved = {};  // those that were there before, replaced or not, and lie elsewhere now
  bool from_nothing = false;

  explicit operator bool() const { return outcome == Result::Outcome::packed; }
};

class Repacker {
 public:
  // ArgumentError when the packing is not one of these buffers.
  Repacker(std::vector<Buffer> buffers, const Packing& packing, const RepackOptions& options = {});

  // ArgumentError when an id is not there or named twice, or when a buffer makes no sense; nothing has changed then.
  Repacked change(const Change& change);

  bool has(int32_t id) const { return id >= 0 && id < arrangement_.size() && arrangement_.buffer(id).bytes > 0; }
  // Of ids that it has.
  const Buffer& buffer(int32_t id) const { return arrangement_.buffer(id); }
  int64_t offset(int32_t id) const { return arrangement_.offset(id); }
  int64_t peak_bytes() const { return arrangement_.occupancy().highest(); }
  // No arena can be smaller.
  const Bound& bound() const { return bound_; }

 private:
  struct Everything;

  void check(const Change& change) const;
  void check_ids(const Change& change) const;
  void check_total(const Change& change) const;
  Displaced swap(int32_t id, Buffer buffer);
  std::vector<Displaced> apply(const Change& change, std::vector<int32_t>& added);
  void list_moved(std::span<const Displaced> displaced, Repacked& result) const;
  bool restart(std::span<const Displaced> displaced, int64_t most, Repacked& result);
  bool pack_from_nothing(const Everything& all, std::span<const int64_t> before, Repacked& result);
  Result pack_within_tolerance(std::span<const Buffer> buffers, std::span<const Packing> hints) const;
  void take(const std::vector<int64_t>& offsets, std::span<const int64_t> before, Repacked& result);
  void keep(Packing packing);
  void undo(std::span<const Displaced> displaced, std::span<const int32_t> added);
  Bound simple_bound() const;
  int64_t ceiling(double gap) const;
  void note_interval();

  Arrangement arrangement_;
  RepackOptions options_;
  LoadCurve loads_;
  std::set<std::pair<int64_t, int32_t>> fixed_;  // where fixed offsets end, and whose they are
  std::vector<int32_t> free_ids_;
  std::vector<Packing> searched_;  // the last few packings that took a search, by id, the latest first
  Bound bound_;
  double gap_ = 0;     // of the last packing from nothing, as a share of the bound
  int64_t total_ = 0;  // bytes and worst padding of all
};

}  // namespace plimsoll::pack
