// Offsets for buffers with lifetimes. Buffers that are alive at the same time must not share a byte; the arena that
// holds them all should be as small as possible. `pack` finds such offsets and says how far from the optimum they can
// be: fast constructive orders first, then a complete search that proves the optimum or that none exists.
//
//   const std::vector<Buffer> buffers = {{.bytes = 256, .first = 0, .end = 2}, {.bytes = 256, .first = 2, .end = 4}};
//   const auto packing = pack(buffers);   // packing->offsets == {0, 0}, packing->peak_bytes == 256
//
// Times are any integers that order the events; lifetimes are half-open. Pure functions: no shared state, threads only
// inside a call that asks for them. The same buffers, options and seed give the same offsets, unless the time limit
// cut the search short (use `node_limit` where even that must repeat).
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace plimsoll::pack {

// The buffer is dead in [first, end): others may use its bytes then.
struct Gap {
  int64_t first = 0;
  int64_t end = 0;
  bool operator==(const Gap&) const = default;
};

struct Buffer {
  int64_t bytes = 0;                         // at least 1
  int64_t first = 0;                         // alive in [first, end)
  int64_t end = 0;                           //
  int64_t alignment = 1;                     // the offset is a multiple of it; any positive number
  std::optional<int64_t> fixed_offset = {};  // it must lie there and nowhere else
  std::vector<Gap> gaps = {};                // inside the lifetime, in order, apart from each other

  bool operator==(const Buffer&) const = default;
};

// The deductions of the complete search, each with a switch so that its worth can be measured. All of them are exact:
// none changes an answer, only the time it takes.
struct Inference {
  bool not_first = true;    // what cannot come next in a section goes above what can
  bool support = true;      // a buffer that does not stay where it would rest goes above one that can lift it
  bool dominance = true;    // and that one must reach into the room it leaves, for else it would fall back there
  bool symmetry = true;     // equal buffers are placed in one order only
  bool backjumping = true;  // a failure takes back the placements it depends on, not those of other parts
  bool nogoods = true;      // states that failed are remembered
  bool leave_out = true;    // buffers that fit wherever the others lie are placed last
  bool local_proof = true;  // what resists is also looked for in a few sections alone
  bool joins = true;        // buffers with a side in common are also packed as one
};

// Why no arena can be smaller than `bytes`.
struct Bound {
  enum class Kind : uint8_t {
    live_load,     // the buffers alive at `first` take that much together
    fixed_offset,  // a buffer with a fixed offset ends there
    search,        // the buffers alive within [first, end) were shown not to fit in less, by complete search
  };
  int64_t bytes = 0;
  Kind kind = Kind::live_load;
  int64_t first = 0;
  int64_t end = 0;

  std::string text() const;  // "12 MiB are alive at time 41"
};

// Which buffer the complete search branches on next.
enum class Strategy : uint8_t {
  fewest_choices,  // in the section with the fewest buffers that can come next, then the least slack
  lowest,          // the lowest one, forced ones first
  lowest_tight,    // the lowest one, in the section with the fewest choices
};

// How the complete search found a packing of some of the buffers. What packed them often packs them again after a small
// change, where most other ways fail.
struct Recipe {
  Strategy strategy = Strategy::lowest;
  std::vector<int32_t> order = {};  // the buffers (indices), of equals the first is tried first
  int64_t nodes = 0;                // that it took
};

struct Packing {
  std::vector<int64_t> offsets = {};  // one per buffer
  int64_t peak_bytes = 0;             // the end of the highest buffer
  int64_t lower_bound_bytes = 0;
  bool optimal = false;              // peak_bytes == lower_bound_bytes
  Bound bound = {};                  // the certificate of lower_bound_bytes
  int64_t nodes = 0;                 // of the complete search; 0 when it was not needed
  std::vector<Recipe> recipes = {};  // of the parts that needed it, its own or those of the hint it was made from
};

struct Options {
  std::optional<int64_t> capacity = std::nullopt;  // decide whether that many bytes do; without it, minimise
  double time_limit_s = 10;                        // of wall clock; the best found so far is returned at the end
  int64_t node_limit = INT64_MAX;                  // of the complete search, for runs that must repeat exactly
  int threads = 1;
  uint64_t seed = 1;
  // Packings of similar buffers, tried in this order: an offset for each buffer, -1 for none. Only `offsets` and
  // `recipes` are looked at.
  std::span<const Packing> hints = {};
  Inference inference = {};
};

// A packing that fits, or why there is none. Also without one `best` holds the smallest packing found (its peak exceeds
// the capacity), or no offsets at all when fixed offsets left none.
struct Result {
  enum class Outcome : uint8_t { packed, infeasible, out_of_time };
  Outcome outcome = Outcome::packed;
  Packing best = {};
  std::string reason = {};  // empty when packed

  explicit operator bool() const { return outcome == Outcome::packed; }
  const Packing& operator*() const { return best; }
  const Packing* operator->() const { return &best; }
  const std::string& why() const { return reason; }
};

// ArgumentError when a buffer makes no sense (names its index and the value) or sizes add up past int64_t.
Result pack(std::span<const Buffer> buffers, const Options& options = {});

// Up to `count` packings of the same buffers, each as good as `pack` with these options and another seed makes it and
// at about that cost: hints for when the buffers change. Fewer when several are the same or none is found; none at all
// where no search is needed.
std::vector<Packing> pack_variously(std::span<const Buffer> buffers, int count, const Options& options = {});

}  // namespace plimsoll::pack
