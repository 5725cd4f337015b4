#include "plimsoll/pack/join.h"

#include <algorithm>
#include <numeric>

namespace plimsoll::pack {
namespace {

void drop(std::vector<int32_t>& list, int32_t value) {
  *std::find(list.begin(), list.end(), value) = list.back();
  list.pop_back();
}

}  // namespace

Joins::Joins(const Instance& instance, int64_t capacity, bool loosely, uint64_t seed)
    : whole_(&instance),
      capacity_(capacity),
      loosely_(loosely),
      random_(seed),
      loads_(instance.sections()),
      starting_(instance.sections() + 1),
      ending_(instance.sections() + 1) {
  for (int32_t i = 0; i < instance.count(); ++i) nodes_.push_back({instance.hull(i), instance.sizes[i]});
  if (!loosely) add_holes(capacity);
  for (size_t i = 0; i < nodes_.size(); ++i) insert(static_cast<int32_t>(i));
  join();
  keep();
}

// Room that opens when buffers die and closes when others are born. What closes is what opened with that size, if
// anything did, else what opened last.
void Joins::add_holes(int64_t capacity) {
  struct Room {
    int32_t since;
    int64_t size;
  };
  std::vector<Room> open;
  const auto close = [&](size_t k, int64_t size, int32_t end) {
    nodes_.push_back({{open[k].since, end}, size});
    open[k].size -= size;
    if (open[k].size == 0) open.erase(open.begin() + static_cast<int64_t>(k));
  };
  int64_t room = 0;
  for (int32_t s = 0; s <= whole_->sections(); ++s) {
    const int64_t next = s < whole_->sections() ? std::max<int64_t>(capacity - whole_->loads[s], 0) : 0;
    if (next > room) open.push_back({s, next - room});
    for (int64_t less = room - next; less > 0;) {
      const auto same = std::find_if(open.rbegin(), open.rend(), [&](const Room& r) { return r.size == less; });
      const size_t k = same != open.rend() ? open.rend() - same - 1 : open.size() - 1;
      const int64_t size = std::min(less, open[k].size);
      close(k, size, s);
      less -= size;
    }
    room = next;
  }
}

void Joins::insert(int32_t node) {
  Node& n = nodes_[node];
  n.place = static_cast<int32_t>(roots_.size());
  roots_.push_back(node);
  starting_[n.life.first].push_back(node);
  ending_[n.life.end].push_back(node);
  fresh_.push_back(node);
  changes_.push_back({node, true});
  add_load(n, 1);
}

void Joins::remove(int32_t node) {
  Node& n = nodes_[node];
  roots_[n.place] = roots_.back();
  nodes_[roots_.back()].place = n.place;
  roots_.pop_back();
  n.place = -1;
  drop(starting_[n.life.first], node);
  drop(ending_[n.life.end], node);
  changes_.push_back({node, false});
  add_load(n, -1);
}

void Joins::add_load(const Node& node, int64_t sign) {
  if (!loosely_) return;
  for (int32_t s = node.life.first; s < node.life.end; ++s) loads_[s] += sign * node.size;
}

void Joins::undo() {
  const std::vector<Change> changes = std::move(changes_);
  for (auto change = changes.rbegin(); change != changes.rend(); ++change) {
    change->inserted ? remove(change->node) : insert(change->node);
  }
  nodes_.resize(kept_nodes_);
  fresh_.clear();
}

void Joins::vary() {
  const int32_t before = left();
  const int32_t time = random_moment();
  int depth = 1;
  while (random_() % 8 < 5) ++depth;
  for (const int32_t node : std::vector<int32_t>(roots_)) {
    if (random_() % 2 == 0) take_apart(node, time, depth);
  }
  join();
  if (left() > before) undo();
  keep();
  if (nodes_.size() > 8 * static_cast<size_t>(whole_->count())) compact();
}

void Joins::keep() {
  changes_.clear();
  kept_nodes_ = nodes_.size();
}

// The start or end of a node, the likelier the fewer others it is part of.
int32_t Joins::random_moment() {
  int32_t node = roots_[random_() % roots_.size()];
  while (!nodes_[node].is_leaf() && random_() % 2 == 0) {
    const auto& parts = nodes_[node].parts;
    const auto end = std::find_if(parts.begin(), parts.end(), [](const Part& part) { return part.node < 0; });
    node = parts[random_() % (end - parts.begin())].node;
  }
  return random_() % 2 == 0 ? nodes_[node].life.first : nodes_[node].life.end;
}

void Joins::take_apart(int32_t node, int32_t time, int depth) {
  const Node n = nodes_[node];
  if (n.is_leaf() || depth == 0 || time < n.life.first || n.life.end < time) return;
  remove(node);
  for (const Part& part : n.parts) {
    if (part.node < 0) break;
    insert(part.node);
    take_apart(part.node, time, depth - 1);
  }
}

void Joins::join() {
  do {
    join_matches();
    for (const int32_t node : alone_) {
      if (is_root(node)) find_pinwheels(node);
    }
    for (const int32_t node : alone_) {
      if (loosely_ && is_root(node)) find_loose_matches(node);
    }
    alone_.clear();
  } while (!matches_.empty());
}

// In random order: how much speaks for a match has turned out to matter less than to try many.
void Joins::join_matches() {
  for (;;) {
    for (; !fresh_.empty(); fresh_.pop_back()) {
      if (!is_root(fresh_.back())) continue;
      find_matches(fresh_.back());
      alone_.push_back(fresh_.back());
    }
    if (matches_.empty()) return;
    std::swap(matches_[random_() % matches_.size()], matches_.back());
    const Node match = matches_.back();
    matches_.pop_back();
    if (can_be_produced(match)) make(match);
  }
}

bool Joins::can_be_produced(const Node& node) const {
  return std::all_of(node.parts.begin(), node.parts.end(),
                     [&](const Part& part) { return part.node < 0 || is_root(part.node); }) &&
         (!loosely_ || fits(node));
}

bool Joins::fits(const Node& node) const {
  for (int32_t s = node.life.first; s < node.life.end; ++s) {
    int64_t load = loads_[s] + node.size;
    for (const Part& part : node.parts) {
      if (part.node < 0) break;
      const Node& n = nodes_[part.node];
      if (n.life.first <= s && s < n.life.end) load -= n.size;
    }
    if (load > capacity_) return false;
  }
  return true;
}

void Joins::make(const Node& node) {
  for (const Part& part : node.parts) {
    if (part.node >= 0) remove(part.node);
  }
  nodes_.push_back(node);
  insert(static_cast<int32_t>(nodes_.size()) - 1);
}

void Joins::find_matches(int32_t node) {
  const Span life = nodes_[node].life;
  for (const int32_t other : starting_[life.first]) match_stack(node, other);
  for (const int32_t other : ending_[life.first]) match_chain(other, node);
  for (const int32_t other : starting_[life.end]) match_chain(node, other);
}

void Joins::find_pinwheels(int32_t node) {
  const Span life = nodes_[node].life;
  for (const auto* centres : {&starting_[life.first], &ending_[life.first], &starting_[life.end], &ending_[life.end]}) {
    for (const int32_t centre : *centres) match_pinwheels(centre);
  }
}

void Joins::match_stack(int32_t below, int32_t above) {
  const Node& a = nodes_[below];
  const Node& b = nodes_[above];
  if (below == above || a.life.end != b.life.end) return;
  matches_.push_back({a.life, a.size + b.size, {{{below, 0}, {above, a.size}}}});
}

void Joins::match_chain(int32_t before, int32_t after) {
  const Node& a = nodes_[before];
  const Node& b = nodes_[after];
  if (a.size == b.size) matches_.push_back({{a.life.first, b.life.end}, a.size, {{{before, 0}, {after, 0}}}});
}

// Stacks of which one lives a little longer, chains of which one is a little larger, or with a moment in between.
void Joins::find_loose_matches(int32_t node) {
  constexpr int32_t kMostBetween = 3;  // sections
  const Node& n = nodes_[node];
  for (const auto* others : {&starting_[n.life.first], &ending_[n.life.end]}) {
    for (const int32_t other : *others) {
      const Node& o = nodes_[other];
      const Span life{std::min(n.life.first, o.life.first), std::max(n.life.end, o.life.end)};
      if (other != node) match_loosely(life, n.size + o.size, {node, 0}, {other, n.size});
    }
  }
  const int32_t earliest = std::max(0, n.life.first - kMostBetween);
  const int32_t latest = std::min(whole_->sections(), n.life.end + kMostBetween);
  for (int32_t near = earliest; near <= n.life.first; ++near) {
    for (const int32_t other : ending_[near]) {
      const Node& o = nodes_[other];
      match_loosely({o.life.first, n.life.end}, std::max(n.size, o.size), {other, 0}, {node, 0});
    }
  }
  for (int32_t near = n.life.end; near <= latest; ++near) {
    for (const int32_t other : starting_[near]) {
      const Node& o = nodes_[other];
      match_loosely({n.life.first, o.life.end}, std::max(n.size, o.size), {node, 0}, {other, 0});
    }
  }
}

void Joins::match_loosely(Span life, int64_t size, const Part& a, const Part& b) {
  constexpr double kMostWaste = 0.1;  // of the area that the two take together
  const auto area = [](Span span, int64_t height) {
    return static_cast<double>(span.end - span.first) * static_cast<double>(height);
  };
  const double used = area(nodes_[a.node].life, nodes_[a.node].size) + area(nodes_[b.node].life, nodes_[b.node].size);
  if (used < (1 - kMostWaste) * area(life, size)) return;
  matches_.push_back({life, size, {{a, b}}});
}

// Around the centre, each of the others reaches past one of its corners:
//
//   left left  top   top
//   left left  top   top         the left one dies when centre and top are born,
//   left left  centre right      bottom and centre die when the right one is born
//   bottom bottom bottom right
void Joins::match_pinwheels(int32_t centre) {
  constexpr size_t kMostPairs = 64;  // of those that meet at a moment; with more, chance makes up too many
  const Node& c = nodes_[centre];
  const auto& lefts = ending_[c.life.first];
  const auto& tops = starting_[c.life.first];
  if (lefts.size() * tops.size() > kMostPairs) return;
  for (const int32_t left : lefts) {
    for (const int32_t top : tops) {
      const Node& l = nodes_[left];
      const Node& t = nodes_[top];
      if (l.size != c.size + t.size || t.life.end <= c.life.end) continue;
      for (const int32_t bottom : ending_[c.life.end]) {
        const Node& b = nodes_[bottom];
        if (b.life.first != l.life.first) continue;
        for (const int32_t right : starting_[c.life.end]) {
          const Node& r = nodes_[right];
          if (r.size != b.size + c.size || r.life.end != t.life.end) continue;
          const int64_t size = b.size + l.size;
          matches_.push_back({{l.life.first, t.life.end},
                              size,
                              {{{bottom, 0}, {right, 0}, {left, b.size}, {centre, b.size}, {top, r.size}}}});
        }
      }
    }
  }
}

// Forgets the nodes that are part of nothing any more.
void Joins::compact() {
  std::vector<bool> used(nodes_.size());
  for (const int32_t root : roots_) used[root] = true;
  for (size_t i = nodes_.size(); i-- > 0;) {
    for (const Part& part : nodes_[i].parts) {
      if (used[i] && part.node >= 0) used[part.node] = true;
    }
  }
  std::vector<int32_t> renamed(nodes_.size());
  std::vector<Node> nodes;
  for (size_t i = 0; i < nodes_.size(); ++i) {
    if (!used[i]) continue;  // leaves all are
    renamed[i] = static_cast<int32_t>(nodes.size());
    nodes.push_back(nodes_[i]);
    for (Part& part : nodes.back().parts) {
      if (part.node >= 0) part.node = renamed[part.node];
    }
  }
  nodes_ = std::move(nodes);
  keep();
  for (int32_t& root : roots_) root = renamed[root];
  for (auto* lists : {&starting_, &ending_}) {
    for (auto& list : *lists) {
      for (int32_t& root : list) root = renamed[root];
    }
  }
}

std::vector<int32_t> Joins::parts_left() const {
  std::vector<int32_t> parts = roots_;
  std::erase_if(parts, [&](int32_t root) { return is_hole(root); });
  return parts;
}

Instance Joins::instance() const {
  Instance all;
  all.unit = whole_->unit;
  all.loads = whole_->loads;
  all.times = whole_->times;
  for (const int32_t root : parts_left()) {
    all.sizes.push_back(nodes_[root].size);
    all.spans.push_back(nodes_[root].life);
  }
  std::vector<int32_t> every(all.sizes.size());
  std::iota(every.begin(), every.end(), 0);
  return restrict_to(all, every);
}

Placement Joins::expanded(const Placement& left) const {
  std::vector<int64_t> offsets(nodes_.size());
  std::vector<int32_t> open = parts_left();
  for (size_t k = 0; k < open.size(); ++k) offsets[open[k]] = left.offsets[k];
  while (!open.empty()) {
    const Node& node = nodes_[open.back()];
    const int64_t offset = offsets[open.back()];
    open.pop_back();
    for (const Part& part : node.parts) {
      if (part.node < 0) break;
      offsets[part.node] = offset + part.offset;
      open.push_back(part.node);
    }
  }
  offsets.resize(whole_->count());
  return {std::move(offsets), left.peak};
}

}  // namespace plimsoll::pack
