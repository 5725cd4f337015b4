#include "plimsoll/pack/join.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <tuple>

namespace plimsoll::pack {

Joining::Joining(const Instance& instance) : whole_(instance), roots_(instance.count()), joined_(instance.count()) {
  for (int32_t i = 0; i < instance.count(); ++i) nodes_.push_back({instance.hull(i), instance.sizes[i]});
  std::iota(roots_.begin(), roots_.end(), 0);
}

void Joining::count_ends() {
  starts_.assign(whole_.sections() + 1, 0);
  ends_.assign(whole_.sections() + 1, 0);
  for (const int32_t i : roots_) {
    ++starts_[nodes_[i].life.first];
    ++ends_[nodes_[i].life.end];
  }
}

void Joining::match_stacks(std::vector<Match>& found) {
  const auto key = [&](int32_t i) { return std::pair(nodes_[i].life.first, nodes_[i].life.end); };
  std::stable_sort(roots_.begin(), roots_.end(), [&](int32_t a, int32_t b) { return key(a) < key(b); });
  for (size_t k = 1; k < roots_.size(); ++k) {
    const int32_t a = roots_[k - 1];
    const int32_t b = roots_[k];
    if (key(a) != key(b)) continue;
    const auto [first, end] = key(a);
    const double chance = static_cast<double>(starts_[first] - 1) * (ends_[end] - 1) / left();
    found.push_back({chance, a, b, Kind::stack});
  }
}

void Joining::match_chains(std::vector<Match>& found) {
  std::vector<int64_t> sizes;
  for (const int32_t i : roots_) sizes.push_back(nodes_[i].size);
  std::sort(sizes.begin(), sizes.end());
  const auto frequency = [&](int64_t size) {
    const auto [from, to] = std::equal_range(sizes.begin(), sizes.end(), size);
    return static_cast<double>(to - from) / static_cast<double>(sizes.size());
  };
  const auto by_end = [&](int32_t i) { return std::pair(nodes_[i].life.end, nodes_[i].size); };
  const auto by_start = [&](int32_t i) { return std::pair(nodes_[i].life.first, nodes_[i].size); };
  std::vector<int32_t> enders = roots_;
  std::stable_sort(enders.begin(), enders.end(), [&](int32_t a, int32_t b) { return by_end(a) < by_end(b); });
  std::vector<int32_t> starters = roots_;
  std::stable_sort(starters.begin(), starters.end(), [&](int32_t a, int32_t b) { return by_start(a) < by_start(b); });
  for (size_t e = 0, s = 0; e < enders.size() && s < starters.size();) {
    const auto end = by_end(enders[e]);
    const auto start = by_start(starters[s]);
    if (end == start) {
      const double pairs = static_cast<double>(starts_[start.first]) * ends_[end.first];
      const double chance = (pairs - 1) * frequency(end.second);
      found.push_back({chance, enders[e], starters[s], Kind::chain});
    }
    e += end <= start ? 1 : 0;
    s += start <= end ? 1 : 0;
  }
}

std::vector<Joining::Match> Joining::matches(std::mt19937_64& random) {
  std::shuffle(roots_.begin(), roots_.end(), random);
  count_ends();
  std::vector<Match> found;
  match_stacks(found);
  match_chains(found);
  return found;
}

void Joining::undo(const Mark& mark) {
  roots_ = mark.roots;
  nodes_.resize(mark.nodes);
  joined_.assign(mark.nodes, false);
}

void Joining::ruin(std::mt19937_64& random) {
  const Node& seed = nodes_[roots_[random() % roots_.size()]];
  const int32_t time = random() % 2 == 0 ? seed.life.first : seed.life.end;
  const int depth = 1 + static_cast<int>(random() % 4);
  std::vector<int32_t> before;
  std::swap(before, roots_);
  for (const int32_t i : before) {
    const Span life = nodes_[i].life;
    if (life.first <= time && time <= life.end && random() % 4 != 0) {
      dissolve(i, time, depth);
    } else {
      roots_.push_back(i);
    }
  }
}

void Joining::dissolve(int32_t node, int32_t time, int depth) {
  const Node n = nodes_[node];
  if (n.kind == Kind::leaf || depth == 0 || time < n.life.first || n.life.end < time) {
    roots_.push_back(node);
    return;
  }
  dissolve(n.lower, time, depth - 1);
  dissolve(n.upper, time, depth - 1);
}

bool Joining::apply(const Match& match) {
  if (joined_[match.lower] || joined_[match.upper]) return false;
  joined_[match.lower] = joined_[match.upper] = true;
  const Node& a = nodes_[match.lower];
  const Node& b = nodes_[match.upper];
  const int64_t size = match.kind == Kind::stack ? a.size + b.size : a.size;
  nodes_.push_back({{a.life.first, b.life.end}, size, match.kind, match.lower, match.upper});
  joined_.push_back(false);
  roots_.push_back(static_cast<int32_t>(nodes_.size()) - 1);
  return true;
}

void Joining::join(double most, double noise, std::mt19937_64& random) {
  std::exponential_distribution<double> spread(1);
  for (;;) {
    std::vector<Match> found = matches(random);
    std::erase_if(found, [&](const Match& m) { return m.chance > most; });
    if (found.empty()) return;
    for (Match& m : found) m.chance = (m.chance + 1e-3) * std::exp(noise * spread(random));
    std::sort(found.begin(), found.end(), [](const Match& a, const Match& b) { return a.chance < b.chance; });
    const size_t believed = found.size() / 4 + 1;
    for (size_t k = 0; k < believed; ++k) apply(found[k]);
    std::erase_if(roots_, [&](int32_t i) { return joined_[i]; });
    joined_.assign(nodes_.size(), false);
  }
}

Instance Joining::instance() const {
  Instance all;
  all.unit = whole_.unit;
  all.loads = whole_.loads;
  all.times = whole_.times;
  for (const int32_t i : roots_) {
    all.sizes.push_back(nodes_[i].size);
    all.spans.push_back(nodes_[i].life);
  }
  std::vector<int32_t> every(roots_.size());
  std::iota(every.begin(), every.end(), 0);
  return restrict_to(all, every);
}

Placement Joining::expanded(const Placement& left) const {
  std::vector<int64_t> offsets(nodes_.size());
  for (size_t k = 0; k < roots_.size(); ++k) offsets[roots_[k]] = left.offsets[k];
  std::vector<int32_t> open = roots_;
  while (!open.empty()) {
    const int32_t i = open.back();
    open.pop_back();
    const Node& node = nodes_[i];
    if (node.kind == Kind::leaf) continue;
    open.push_back(node.lower);
    open.push_back(node.upper);
    offsets[node.lower] = offsets[i];
    offsets[node.upper] = offsets[i] + (node.kind == Kind::stack ? nodes_[node.lower].size : 0);
  }
  offsets.resize(whole_.count());
  return {std::move(offsets), left.peak};
}

}  // namespace plimsoll::pack
