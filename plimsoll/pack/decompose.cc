#include "plimsoll/pack/decompose.h"

#include <algorithm>
#include <numeric>

#include "plimsoll/pack/dominated.h"

namespace plimsoll::pack {
namespace {

// The buffers of `instance`, by first section, cut wherever none crosses.
std::vector<std::vector<int32_t>> components(const Instance& instance) {
  std::vector<int32_t> order(instance.count());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(),
                   [&](int32_t a, int32_t b) { return instance.hull(a).first < instance.hull(b).first; });
  std::vector<std::vector<int32_t>> parts;
  int32_t end = -1;
  for (const int32_t i : order) {
    if (instance.hull(i).first >= end) parts.emplace_back();
    parts.back().push_back(i);
    end = std::max(end, instance.hull(i).end);
  }
  return parts;
}

bool spans_all(const Instance& instance, int32_t i) {
  const auto spans = instance.spans_of(i);
  return spans.size() == 1 && spans[0].first == 0 && spans[0].end == instance.sections();
}

class Decomposer {
 public:
  Decomposer(const Instance& instance, int64_t capacity, const Inference& inference)
      : instance_(instance), capacity_(capacity), inference_(inference) {
    result_.offsets.assign(instance.count(), -1);
  }

  Decomposition run() {
    Part all;
    all.buffers.resize(instance_.count());
    std::iota(all.buffers.begin(), all.buffers.end(), 0);
    pending_.push_back(std::move(all));
    while (!pending_.empty()) {
      const Part part = std::move(pending_.back());
      pending_.pop_back();
      split(part);
    }
    std::reverse(result_.last.begin(), result_.last.end());
    return std::move(result_);
  }

 private:
  void split(const Part& part) {
    const Instance sub = restrict_to(instance_, part.buffers);
    for (const std::vector<int32_t>& component : components(sub)) {
      Part piece{{}, part.base};
      for (const int32_t i : component) piece.buffers.push_back(part.buffers[i]);
      std::sort(piece.buffers.begin(), piece.buffers.end());  // so that ties fall as the caller has them
      reduce(std::move(piece));
    }
  }

  // Whatever is left of a part that lost buffers is looked at again.
  void reduce(Part part) {
    const Instance sub = restrict_to(instance_, part.buffers);
    if (!inference_.leave_out || !leave_out(part, sub)) strip(part, sub);
  }

  // Takes away the buffers that can be placed last, if there are any.
  bool leave_out(const Part& part, const Instance& sub) {
    std::vector<bool> out(sub.count());
    for (const int32_t i : dominated(sub, capacity_ - part.base)) {
      result_.last.push_back(part.buffers[i]);
      out[i] = true;
    }
    Part rest{{}, part.base};
    for (int32_t i = 0; i < sub.count(); ++i) {
      if (!out[i]) rest.buffers.push_back(part.buffers[i]);
    }
    if (rest.buffers.size() == part.buffers.size()) return false;
    if (!rest.buffers.empty()) pending_.push_back(std::move(rest));
    return true;
  }

  // Puts the buffers that span all of the part below the rest.
  void strip(const Part& part, const Instance& sub) {
    Part rest{{}, part.base};
    for (int32_t i = 0; i < sub.count(); ++i) {
      if (!instance_.alignments.empty() || !spans_all(sub, i)) {
        rest.buffers.push_back(part.buffers[i]);
        continue;
      }
      result_.offsets[part.buffers[i]] = rest.base;
      rest.base += sub.sizes[i];
    }
    if (rest.buffers.empty()) return;
    (rest.base == part.base ? result_.parts : pending_).push_back(std::move(rest));
  }

  const Instance& instance_;
  const int64_t capacity_;
  const Inference& inference_;
  Decomposition result_;
  std::vector<Part> pending_;
};

}  // namespace

Decomposition decompose(const Instance& instance, int64_t capacity, const Inference& inference) {
  if (instance.fixed.empty()) return Decomposer(instance, capacity, inference).run();
  Decomposition whole{{{}}, std::vector<int64_t>(instance.count(), -1), {}};
  whole.parts[0].buffers.resize(instance.count());
  std::iota(whole.parts[0].buffers.begin(), whole.parts[0].buffers.end(), 0);
  return whole;
}

}  // namespace plimsoll::pack
