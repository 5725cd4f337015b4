#include "plimsoll/pack/patch.h"

#include <algorithm>
#include <iterator>
#include <limits>
#include <queue>

#include "plimsoll/base/bytes.h"
#include "plimsoll/pack/greedy.h"

namespace plimsoll::pack {
namespace {

// Looking for a place must not cost more than a fraction of packing everything.
constexpr int64_t kMostCells = 64;          // looked at to see whether a buffer can stay
constexpr int64_t kMostNeighbours = 16384;  // that a place is looked for among
constexpr int64_t kVisitsPerBuffer = 4;     // of neighbours, in all
constexpr double kToll = 1.0 / 256;         // no buffer may eject more than so many others

double lifetime(const Buffer& buffer) { return static_cast<double>(buffer.end) - static_cast<double>(buffer.first); }

// How hard it is to find another place for it.
double weight(const Buffer& buffer) {
  const auto bytes = static_cast<double>(buffer.bytes);
  return bytes * bytes * lifetime(buffer);
}

// Whether `now` takes nothing at its offset that `before` did not.
bool inside(const Buffer& now, const Buffer& before) {
  return before.gaps.empty() && now.bytes <= before.bytes && before.first <= now.first && now.end <= before.end;
}

// What is in the way of a buffer, wherever it would lie: the costs of those that begin below an offset, and of those
// that end there, summed up beforehand.
class Obstacles {
 public:
  void add(int64_t low, int64_t high, double cost) {
    begun_.push_back({low, cost});
    ended_.push_back({high, cost});
  }
  void sum_up() {
    for (auto* steps : {&begun_, &ended_}) {
      std::sort(steps->begin(), steps->end(), [](const Step& a, const Step& b) { return a.offset < b.offset; });
      double total = 0;
      for (Step& step : *steps) step.total = total += step.total;
    }
  }
  double cost(int64_t low, int64_t high) const { return up_to(begun_, high - 1) - up_to(ended_, low); }

 private:
  struct Step {
    int64_t offset;
    double total;  // of all steps up to this one
  };
  static double up_to(const std::vector<Step>& steps, int64_t offset) {
    const auto after = std::upper_bound(steps.begin(), steps.end(), offset,
                                        [](int64_t value, const Step& step) { return value < step.offset; });
    return after == steps.begin() ? 0 : std::prev(after)->total;
  }

  std::vector<Step> begun_;
  std::vector<Step> ended_;
};

}  // namespace

bool Patch::settle(std::span<const Displaced> displaced) {
  visits_left_ = kMostNeighbours + kVisitsPerBuffer * arrangement_.size();
  for (const Displaced& one : displaced) touched_.insert(one.id);
  for (const Tenant& tenant : arrangement_.occupancy().reaching_above(ceiling_)) {
    if (buffer(tenant.id).fixed_offset) return false;
    if (lies(tenant.id)) eject(tenant.id);
  }
  for (const Displaced& one : displaced) {
    if (buffer(one.id).fixed_offset && !settle_fixed(one.id)) return false;
  }
  for (const Displaced& one : displaced) settle_inside(one);
  for (const Displaced& one : displaced) settle_grown(one);
  fill_holes(displaced);
  std::vector<int32_t> rest = std::move(homeless_);
  for (const Displaced& one : displaced) {
    if (buffer(one.id).bytes > 0 && !lies(one.id)) rest.push_back(one.id);
  }
  return settle_all(std::move(rest)) && settle_on_top();
}

// Others make room, unless they are fixed too.
bool Patch::settle_fixed(int32_t id) {
  const int64_t offset = *buffer(id).fixed_offset;
  if (offset + buffer(id).bytes > ceiling_) return false;
  std::vector<int32_t> in_the_way;
  for_each_area(buffer(id), offset, [&](const Area& area) {
    arrangement_.occupancy().all_within(area, INT64_MAX, [&](const Tenant& tenant) {
      in_the_way.push_back(tenant.id);
      return true;
    });
  });
  for (const int32_t other : in_the_way) {
    if (buffer(other).fixed_offset) return false;
    if (lies(other)) eject(other);
  }
  put_outside(id, offset);
  return true;
}

void Patch::put_outside(int32_t id, int64_t offset) {
  arrangement_.put(id, offset);
  for_each_area(buffer(id), offset, [&](const Area& area) { outside_.insert({area, id}); });
}

void Patch::settle_inside(const Displaced& one) {
  const Buffer& now = buffer(one.id);
  if (now.bytes == 0 || lies(one.id) || one.before.bytes == 0) return;
  if (!inside(now, one.before) || !may_be_at(now, one.offset)) return;
  if (outside_.is_free({now.first, now.end, one.offset, one.offset + now.bytes})) arrangement_.put(one.id, one.offset);
}

void Patch::settle_grown(const Displaced& one) {
  const Buffer& now = buffer(one.id);
  if (now.bytes == 0 || lies(one.id) || one.before.bytes == 0) return;
  if (!may_be_at(now, one.offset)) return;
  if (arrangement_.is_free(now, one.offset, kMostCells)) put_outside(one.id, one.offset);
}

// Where the others were, the longest-lived first: they fit into the fewest holes.
void Patch::fill_holes(std::span<const Displaced> displaced) {
  Holes holes;
  std::vector<int32_t> order;
  for (const Displaced& one : displaced) {
    if (lies(one.id)) continue;
    if (buffer(one.id).bytes > 0) order.push_back(one.id);
    for_each_area(one.before, one.offset, [&](const Area& area) {
      if (outside_.is_free(area)) holes.add(area);
    });
  }
  std::stable_sort(order.begin(), order.end(),
                   [&](int32_t a, int32_t b) { return lifetime(buffer(a)) > lifetime(buffer(b)); });
  for (const int32_t id : order) {
    if (const auto offset = holes.take(buffer(id), ceiling_)) arrangement_.put(id, *offset);
  }
}

// The weightiest first. What one ejects weighs less than it does, so that this ends.
bool Patch::settle_all(std::vector<int32_t> ids) {
  const auto lighter = [&](int32_t a, int32_t b) {
    return weight(buffer(a)) != weight(buffer(b)) ? weight(buffer(a)) < weight(buffer(b)) : a > b;
  };
  std::priority_queue queue(lighter, std::move(ids));
  while (!queue.empty()) {
    const int32_t id = queue.top();
    queue.pop();
    if (!settle_among_neighbours(id)) return false;
    for (const int32_t ejected : homeless_) queue.push(ejected);
    homeless_.clear();
  }
  return true;
}

bool Patch::settle_among_neighbours(int32_t id) {
  const Buffer& one = buffer(id);
  std::vector<Neighbour> neighbours;
  if (!gather(one, neighbours)) {
    left_over_.push_back(id);
    return true;
  }
  std::sort(neighbours.begin(), neighbours.end(), [](const auto& a, const auto& b) { return a.low < b.low; });
  int64_t offset = 0;
  for (const Neighbour& other : neighbours) {
    if (offset + one.bytes <= other.low) break;
    if (offset < other.high) offset = align_up(other.high, one.alignment);
  }
  if (offset + one.bytes > ceiling_) return settle_by_ejection(id, neighbours);
  arrangement_.put(id, offset);
  return true;
}

// Whoever lives when the buffer does; false when these are too many.
bool Patch::gather(const Buffer& one, std::vector<Neighbour>& neighbours) {
  if (lifetime(one) >= too_long_) return false;
  const int64_t most = std::min(kMostNeighbours, visits_left_);
  bool complete = true;
  for_each_area(one, 0, [&](Area area) {
    area.high = INT64_MAX;
    complete = complete && arrangement_.occupancy().all_within(area, most, [&](const Tenant& tenant) {
      neighbours.push_back({tenant.area.low, tenant.area.high, tenant.id});
      return std::ssize(neighbours) <= most;
    });
  });
  visits_left_ -= std::ssize(neighbours);
  if (!complete) too_long_ = lifetime(one);
  return complete;
}

bool Patch::settle_by_ejection(int32_t id, const std::vector<Neighbour>& neighbours) {
  const Buffer& one = buffer(id);
  const int64_t low = cheapest_offset(one, neighbours);
  if (low == Arrangement::kNowhere) return false;
  double ejected = 0;
  std::vector<int32_t> in_the_way;
  for (const Neighbour& other : neighbours) {
    if (other.high <= low || low + one.bytes <= other.low) continue;
    if (buffer(other.id).fixed_offset) return false;
    in_the_way.push_back(other.id);
    ejected += price(other.id, one);
  }
  if (ejected >= weight(one)) return false;
  for (const int32_t other : in_the_way) {
    if (lies(other)) eject(other);
  }
  arrangement_.put(id, low);
  return true;
}

// Where those in the way weigh the least together, of the offsets at which the buffer would touch another.
int64_t Patch::cheapest_offset(const Buffer& one, const std::vector<Neighbour>& neighbours) const {
  Obstacles obstacles;
  for (const Neighbour& other : neighbours) obstacles.add(other.low, other.high, price(other.id, one));
  obstacles.sum_up();
  double least = std::numeric_limits<double>::infinity();
  int64_t best = Arrangement::kNowhere;
  const auto consider = [&](int64_t low) {
    if (!may_be_at(one, low)) return;
    const double cost = obstacles.cost(low, low + one.bytes);
    if (cost >= least) return;
    least = cost;
    best = low;
  };
  consider(0);
  consider(align_down(ceiling_ - one.bytes, one.alignment));
  for (const Neighbour& other : neighbours) {
    consider(align_up(other.high, one.alignment));
    consider(align_down(other.low - one.bytes, one.alignment));
  }
  return best;
}

double Patch::price(int32_t ejected, const Buffer& by) const { return weight(buffer(ejected)) + kToll * weight(by); }

void Patch::eject(int32_t id) {
  if (touched_.insert(id).second) ejected_.push_back({id, buffer(id), arrangement_.offset(id)});
  arrangement_.take(id);
  homeless_.push_back(id);
}

// Packed among themselves above all others.
bool Patch::settle_on_top() {
  if (left_over_.empty()) return true;
  std::vector<Buffer> buffers;
  int64_t alignment = 1;
  for (const int32_t id : left_over_) {
    buffers.push_back(buffer(id));
    alignment = std::max(alignment, buffers.back().alignment);
  }
  const bool in_step = std::all_of(buffers.begin(), buffers.end(),
                                   [&](const Buffer& other) { return alignment % other.alignment == 0; });
  const Instance instance = make_instance(buffers);
  const Placement placement = pack_at_once(instance);
  const int64_t base = align_up(arrangement_.occupancy().highest(), alignment);
  if (!in_step || base + placement.peak * instance.unit > ceiling_) return false;
  for (size_t i = 0; i < left_over_.size(); ++i) {
    arrangement_.put(left_over_[i], base + placement.offsets[i] * instance.unit);
  }
  return true;
}

}  // namespace plimsoll::pack
