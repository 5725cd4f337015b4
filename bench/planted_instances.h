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

struct PlantedKind {
  const char* name;
  int64_t times_per_100;                                      // moments of the rectangle for each hundred buffers
  int64_t bytes;                                              // its height
  int64_t grain;                                              // that cuts between bytes are multiples of
  enum class Pick { any, largest, tree } pick = Pick::any;    // what is cut next; tree: counts are split at random
  enum class Turn { any, longer, shorter } turn = Turn::any;  // which side is cut
  double edge = 0;                                            // of a side that is not cut, at each end
  double pinwheels = 0;  // of the cuts that make five pieces which no straight cut parts
  double holes = 0;      // of the pieces, by area, that are taken away
};

inline constexpr PlantedKind kPlantedKinds[] = {
    {.name = "guillotine", .times_per_100 = 1000, .bytes = 1 << 20, .grain = 1},
    {.name = "tree", .times_per_100 = 1000, .bytes = 1 << 20, .grain = 1, .pick = PlantedKind::Pick::tree},
    {.name = "coarse", .times_per_100 = 50, .bytes = 1024, .grain = 1, .pick = PlantedKind::Pick::tree},
    {.name = "largest", .times_per_100 = 200, .bytes = 1 << 20, .grain = 1, .pick = PlantedKind::Pick::largest},
    {.name = "square",
     .times_per_100 = 1000,
     .bytes = 1 << 20,
     .grain = 512,
     .pick = PlantedKind::Pick::largest,
     .turn = PlantedKind::Turn::longer,
     .edge = 0.2},
    {.name = "slivers",
     .times_per_100 = 1000,
     .bytes = 1 << 20,
     .grain = 64,
     .turn = PlantedKind::Turn::shorter,
     .edge = 0.3},
    {.name = "few times", .times_per_100 = 10, .bytes = 1 << 20, .grain = 256},
    {.name = "few bytes", .times_per_100 = 400, .bytes = 256, .grain = 1, .pick = PlantedKind::Pick::largest},
    {.name = "pinwheels",
     .times_per_100 = 1000,
     .bytes = 1 << 20,
     .grain = 1,
     .pick = PlantedKind::Pick::largest,
     .pinwheels = 0.3},
    {.name = "holes",
     .times_per_100 = 1000,
     .bytes = 1 << 20,
     .grain = 1,
     .pick = PlantedKind::Pick::largest,
     .holes = 0.02},
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
      buffers.push_back({.bytes = (p.high - p.low) * kind_.grain, .first = p.first, .end = p.end});
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

  // Not those of the fullest moment, so that the optimum stays.
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
