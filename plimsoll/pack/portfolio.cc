#include "plimsoll/pack/portfolio.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>
#include <random>

namespace plimsoll::pack {
namespace {

// Each letter is a criterion, larger first: Crowd, Width, Area, Size; Hint is lower first.
constexpr std::array kOrders = {"CWA", "WAC", "CAW", "AWC", "SWC", "CSW"};
constexpr std::array kStrategies = {Strategy::lowest, Strategy::fewest_choices, Strategy::lowest_tight};
constexpr int64_t kCycle = kOrders.size() * kStrategies.size();
constexpr int64_t kHintedRuns = 2;

constexpr double kNodesPerBuffer = 3;
constexpr double kGrowth = 1.3;  // of the nodes per run, each cycle
constexpr double kNoise = 0.3;

double uniform(std::mt19937_64& random) { return static_cast<double>(random() >> 11) * 0x1p-53; }

}  // namespace

Portfolio::Portfolio(const Instance& instance, uint64_t seed, std::span<const int64_t> hint)
    : instance_(instance), seed_(seed), hint_(hint.begin(), hint.end()), crowds_(crowds(instance)) {}

double Portfolio::key(int32_t buffer, char criterion) const {
  const Span hull = instance_.hull(buffer);
  const auto width = static_cast<double>(hull.end - hull.first);
  const auto size = static_cast<double>(instance_.sizes[buffer]);
  switch (criterion) {
    case 'C':
      return static_cast<double>(crowds_[buffer]);
    case 'W':
      return width;
    case 'A':
      return width * size;
    case 'S':
      return size;
    default:
      return hint_[buffer] < 0 ? 0 : -static_cast<double>(hint_[buffer]);
  }
}

std::vector<int32_t> Portfolio::ranks(const char* criteria, int64_t k) const {
  std::vector<std::array<double, 3>> keys(instance_.count());
  std::mt19937_64 random(seed_ * 0x9E3779B97F4A7C15u + static_cast<uint64_t>(k));
  for (int32_t i = 0; i < instance_.count(); ++i) {
    const double noise = k < kCycle ? 1 : std::exp(kNoise * (2 * uniform(random) - 1));
    for (int c = 0; c < 3; ++c) keys[i][c] = key(i, criteria[c]) * noise;
  }
  std::vector<int32_t> order(instance_.count());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](int32_t a, int32_t b) { return keys[a] > keys[b]; });
  std::vector<int32_t> ranks(order.size());
  for (size_t i = 0; i < order.size(); ++i) ranks[order[i]] = static_cast<int32_t>(i);
  return ranks;
}

Run Portfolio::run(int64_t k) const {
  const double growth = std::pow(kGrowth, static_cast<double>(k / kCycle));
  const double nodes = std::min(kNodesPerBuffer * instance_.count() * growth, 1e15);
  Run run{.strategy = kStrategies[k % kStrategies.size()], .ranks = {}, .nodes = static_cast<int64_t>(nodes)};
  const bool hinted = !hint_.empty() && k < kHintedRuns;
  run.ranks = ranks(hinted ? "HWA" : kOrders[k / kStrategies.size() % kOrders.size()], k);
  return run;
}

}  // namespace plimsoll::pack
