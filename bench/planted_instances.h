// Perfect packings by construction: a rectangle of time and bytes cut into buffers, in one of several ways.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <random>
#include <utility>
#include <vector>

#include "plimsoll/pack/pack.h"

namespace plimsoll::pack {

// A rectangle, and the rule by which it is cut.
struct PlantedKind {
  enum class Pick { any, larger, tree };     // what is cut next; tree: the count is split at random, then each side cut
  enum class Turn { any, longer, shorter };  // which side is cut

  const char* name;
  int64_t times_per_100;  // moments of the rectangle for each hundred buffers
  int64_t bytes;          // its height
  int64_t grain;          // that cuts between bytes are multiples of
  Pick pick = Pick::any;
  Turn turn = Turn::any;
  double edge = 0;       // of a side that is not cut, at each end
  double pinwheels = 0;  // of the cuts, those that make five pieces which no straight cut parts
  double holes = 0;      // of the area, that is taken away in whole pieces
  double shrunk = 0;     // of each size, at most, that is taken away
  double shortened = 0;  // of each lifetime, at most
};

inline constexpr PlantedKind kPlantedKinds[] = {
    {"guillotine", 1000, 1 << 20, 1},
    {"tree", 1000, 1 << 20, 1, PlantedKind::Pick::tree},
    {"coarse", 50, 1024, 1, PlantedKind::Pick::tree},
    {"larger", 200, 1 << 20, 1, PlantedKind::Pick::larger},
    {"square", 1000, 1 << 20, 512, PlantedKind::Pick::larger, PlantedKind::Turn::longer, 0.2},
    {"slivers", 1000, 1 << 20, 64, PlantedKind::Pick::any, PlantedKind::Turn::shorter, 0.3},
    {"few times", 10, 1 << 20, 256},
    {"few bytes", 400, 256, 1, PlantedKind::Pick::larger},
    {.name = "pinwheels",
     .times_per_100 = 1000,
     .bytes = 1 << 20,
     .grain = 1,
     .pick = PlantedKind::Pick::larger,
     .pinwheels = 0.3},
    {.name = "holes",
     .times_per_100 = 1000,
     .bytes = 1 << 20,
     .grain = 1,
     .pick = PlantedKind::Pick::larger,
     .holes = 0.02},
    {.name = "shrunk",
     .times_per_100 = 1000,
     .bytes = 1 << 20,
     .grain = 1,
     .pick = PlantedKind::Pick::larger,
     .shrunk = 0.03},
    {.name = "shortened",
     .times_per_100 = 1000,
     .bytes = 1 << 20,
     .grain = 1,
     .pick = PlantedKind::Pick::larger,
     .shortened = 0.05},
};

class Cutter {
 public:
  Cutter(const PlantedKind& kind, int64_t count, uint64_t seed)
      : kind_(kind), count_(count), times_(std::max<int64_t>(8, count * kind.times_per_100 / 100)), random_(seed) {}

  std::vector<Buffer> cut() {
    const Piece whole{0, times_, 0, kind_.bytes / kind_.grain};
    if (kind_.pick == PlantedKind::Pick::tree) {
      split(whole, count_);
    } else {
      pieces_.push_back(whole);
      for (int64_t misses = 0; size() < count_ && misses < 1000 * count_;) misses += cut_one(pick()) ? 0 : 1;
    }
    std::shuffle(pieces_.begin(), pieces_.end(), random_);
    take_away();
    std::vector<Buffer> buffers;
    for (const Piece& p : pieces_) {
      buffers.push_back({.bytes = less((p.high - p.low) * kind_.grain, kind_.shrunk),
                         .first = p.first,
                         .end = p.first + less(p.end - p.first, kind_.shortened)});
    }
    return buffers;
  }

 private:
  struct Piece {
    int64_t first, end, low, high;
    double area() const { return static_cast<double>(end - first) * static_cast<double>(high - low); }
  };

  int64_t size() const { return static_cast<int64_t>(pieces_.size()); }
  double uniform() { return static_cast<double>(random_() >> 11) * 0x1p-53; }

  size_t pick() {
    if (kind_.pick == PlantedKind::Pick::any) return random_() % pieces_.size();
    size_t best = random_() % pieces_.size();
    for (int i = 0; i < 8; ++i) {
      const size_t other = random_() % pieces_.size();
      if (pieces_[other].area() > pieces_[best].area()) best = other;
    }
    return best;
  }

  int64_t less(int64_t length, double most) {
    return length - std::llround(most * uniform() * static_cast<double>(length - 1));
  }

  // A cut strictly within [low, high), or low when there is none.
  int64_t within(int64_t low, int64_t high) {
    const auto length = static_cast<double>(high - low);
    const double at = kind_.edge + (1 - 2 * kind_.edge) * uniform();
    const int64_t cut = low + std::clamp<int64_t>(std::llround(at * length), 1, high - low - 1);
    return high - low < 2 ? low : cut;
  }

  bool in_time(const Piece& p) {
    if (kind_.turn == PlantedKind::Turn::any) return random_() % 2 == 0;
    const bool longer = static_cast<double>(p.end - p.first) / static_cast<double>(times_) >
                        static_cast<double>((p.high - p.low) * kind_.grain) / static_cast<double>(kind_.bytes);
    return longer == (kind_.turn == PlantedKind::Turn::longer) || random_() % 8 == 0;
  }

  bool halve(const Piece& p, Piece& a, Piece& b) {
    a = b = p;
    const bool time = p.high - p.low < 2 || (p.end - p.first >= 2 && in_time(p));
    if (time) {
      a.end = b.first = within(p.first, p.end);
      return a.end > a.first;
    }
    a.high = b.low = within(p.low, p.high);
    return a.high > a.low;
  }

  bool cut_one(size_t i) {
    const Piece p = pieces_[i];
    if (kind_.pinwheels > 0 && uniform() < kind_.pinwheels && p.end - p.first >= 3 && p.high - p.low >= 3) {
      pinwheel(i);
      return true;
    }
    Piece a{};
    Piece b{};
    if (!halve(p, a, b)) return false;
    pieces_[i] = a;
    pieces_.push_back(b);
    return true;
  }

  void pinwheel(size_t i) {
    const Piece p = pieces_[i];
    const int64_t t = within(p.first, p.end - 1);
    const int64_t u = within(t, p.end) == t ? t + 1 : within(t, p.end);
    const int64_t l = within(p.low, p.high - 1);
    const int64_t h = within(l, p.high) == l ? l + 1 : within(l, p.high);
    pieces_[i] = {t, u, l, h};
    pieces_.push_back({p.first, u, p.low, l});
    pieces_.push_back({u, p.end, p.low, h});
    pieces_.push_back({t, p.end, h, p.high});
    pieces_.push_back({p.first, t, l, p.high});
  }

  void split(const Piece& p, int64_t count) {
    Piece a{};
    Piece b{};
    if (count == 1 || !halve(p, a, b)) {
      pieces_.push_back(p);
      return;
    }
    const int64_t left = 1 + static_cast<int64_t>(random_() % static_cast<uint64_t>(count - 1));
    split(a, left);
    split(b, count - left);
  }

  // Not those at the peak, so that the optimum stays.
  void take_away() {
    double area = kind_.holes * static_cast<double>(times_) * static_cast<double>(kind_.bytes / kind_.grain);
    std::erase_if(pieces_, [&](const Piece& p) {
      const bool kept = area < p.area() || (p.first <= times_ / 2 && times_ / 2 < p.end);
      area -= kept ? 0 : p.area();
      return !kept;
    });
  }

  PlantedKind kind_;
  int64_t count_;
  int64_t times_;
  std::mt19937_64 random_;
  std::vector<Piece> pieces_;
};

inline std::vector<Buffer> planted(const PlantedKind& kind, int64_t count, uint64_t seed) {
  return Cutter(kind, count, seed).cut();
}

}  // namespace plimsoll::pack
