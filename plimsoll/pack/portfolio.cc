#include "plimsoll/pack/portfolio.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>
#include <random>

namespace plimsoll::pack {
namespace {

// A way to search: the strategy, what ranks buffers (each letter a criterion, larger first), nodes per buffer.
//   C the largest load of its sections   W its sections   L its lifetime   S its size   A = S * W   B = S * L
struct Way {
  Strategy strategy;
  const char* criteria;
  double nodes_per_buffer;
};

// Those that solved the most, and different, instances of several kinds within few nodes; see docs/packing.md.
constexpr std::array kWays = {
    Way{Strategy::lowest, "CWA", 2},         Way{Strategy::fewest_choices, "SWC", 2},
    Way{Strategy::lowest, "CLB", 2},         Way{Strategy::fewest_choices, "CWA", 8},
    Way{Strategy::fewest_choices, "CBL", 2}, Way{Strategy::lowest, "BLC", 2},
    Way{Strategy::lowest, "WAC", 2},         Way{Strategy::lowest, "CAW", 2},
    Way{Strategy::lowest_tight, "LBC", 2},   Way{Strategy::fewest_choices, "AWC", 2},
};
constexpr int64_t kCycle = kWays.size();

constexpr double kGrowth = 1.25;     // of the nodes, each time round
constexpr double kLongGrowth = 1.6;  // of the first way's when proving
constexpr double kLeastNodes = 200;
constexpr double kNoise = 0.1;  // on all criteria but C, not on the first runs of seed 1

double uniform(std::mt19937_64& random) { return static_cast<double>(random() >> 11) * 0x1p-53; }

}  // namespace

Portfolio::Portfolio(const Instance& instance, uint64_t seed)
    : instance_(instance), seed_(seed), crowds_(crowds(instance)) {}

double Portfolio::key(int32_t buffer, char criterion) const {
  const Span hull = instance_.hull(buffer);
  const auto width = static_cast<double>(hull.end - hull.first);
  const double lifetime =
      1 + static_cast<double>(instance_.times[hull.end - 1]) - static_cast<double>(instance_.times[hull.first]);
  const auto size = static_cast<double>(instance_.sizes[buffer]);
  switch (criterion) {
    case 'C':
      return static_cast<double>(crowds_[buffer]);
    case 'W':
      return width;
    case 'L':
      return lifetime;
    case 'A':
      return width * size;
    case 'B':
      return lifetime * size;
    default:
      return size;
  }
}

std::vector<int32_t> Portfolio::ranks(const char* criteria, int64_t k) const {
  std::vector<std::array<double, 3>> keys(instance_.count());
  std::mt19937_64 random(seed_ * 0x9E3779B97F4A7C15u + static_cast<uint64_t>(k));
  const bool plain = seed_ == 1 && k < kCycle;
  for (int32_t i = 0; i < instance_.count(); ++i) {
    const double noise = plain ? 1 : std::exp(kNoise * (2 * uniform(random) - 1));
    for (int c = 0; c < 3; ++c) keys[i][c] = key(i, criteria[c]) * (criteria[c] == 'C' ? 1 : noise);
  }
  std::vector<int32_t> order(instance_.count());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](int32_t a, int32_t b) { return keys[a] > keys[b]; });
  std::vector<int32_t> ranks(order.size());
  for (size_t i = 0; i < order.size(); ++i) ranks[order[i]] = static_cast<int32_t>(i);
  return ranks;
}

Run Portfolio::run(int64_t k, bool proving) const {
  const Way& way = kWays[(static_cast<uint64_t>(k) + seed_ - 1) % kCycle];
  const double rate = proving && &way == kWays.data() ? kLongGrowth : kGrowth;
  const int64_t cycles = k / kCycle;
  const double growth = std::pow(rate, static_cast<double>(cycles));
  const double nodes = std::min(growth * std::max(way.nodes_per_buffer * instance_.count(), kLeastNodes), 1e15);
  return {way.strategy, ranks(way.criteria, k), static_cast<int64_t>(nodes)};
}

}  // namespace plimsoll::pack
