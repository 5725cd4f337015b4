#include "plimsoll/pack/dominated.h"

#include <numeric>

namespace plimsoll::pack {
namespace {

struct Crowd {
  int64_t units = 0;
  int64_t buffers = 0;

  Crowd operator+(const Crowd& other) const { return {units + other.units, buffers + other.buffers}; }
  Crowd operator-(const Crowd& other) const { return {units - other.units, buffers - other.buffers}; }
};

// The buffers not yet left out, counted so that those who live with one are a difference of two sums. Gaps in a
// lifetime are taken as lived, which errs on the safe side.
class Census {
 public:
  Census(const Instance& instance, const std::vector<bool>& out)
      : instance_(instance), started_(instance.sections() + 1), ended_(instance.sections() + 1) {
    for (int32_t i = 0; i < instance.count(); ++i) {
      if (out[i]) continue;
      const Span hull = instance.hull(i);
      started_[hull.first + 1] = started_[hull.first + 1] + self(i);
      ended_[hull.end] = ended_[hull.end] + self(i);
    }
    std::partial_sum(started_.begin(), started_.end(), started_.begin());
    std::partial_sum(ended_.begin(), ended_.end(), ended_.begin());
  }

  Crowd living_with(int32_t i) const {
    const Span hull = instance_.hull(i);
    return started_[hull.end] - ended_[hull.first] - self(i);
  }

 private:
  Crowd self(int32_t i) const { return {instance_.sizes[i], 1}; }

  const Instance& instance_;
  std::vector<Crowd> started_;  // before a section
  std::vector<Crowd> ended_;    // by a section
};

// k buffers leave at most k + 1 gaps, and the largest is no smaller than their mean.
bool always_fits(int64_t size, const Crowd& others, int64_t capacity) {
  const int64_t room = capacity - others.units;
  return room > 0 && (room + others.buffers) / (others.buffers + 1) >= size;
}

}  // namespace

std::vector<int32_t> dominated(const Instance& instance, int64_t capacity) {
  std::vector<int32_t> left_out;
  if (!instance.alignments.empty() || !instance.fixed.empty()) return left_out;
  std::vector<bool> out(instance.count());
  for (size_t before = SIZE_MAX; before != left_out.size();) {
    before = left_out.size();
    const Census census(instance, out);
    for (int32_t i = 0; i < instance.count(); ++i) {
      if (out[i] || !always_fits(instance.sizes[i], census.living_with(i), capacity)) continue;
      out[i] = true;
      left_out.push_back(i);
    }
  }
  return left_out;
}

}  // namespace plimsoll::pack
