#include "plimsoll/pack/load_curve.h"

#include "plimsoll/pack/instance.h"

namespace plimsoll::pack {

LoadCurve::LoadCurve(std::span<const Buffer> buffers) {
  std::vector<Step> steps;
  steps.reserve(2 * buffers.size());
  for (const Buffer& buffer : buffers) {
    for_each_piece(buffer, [&](int64_t first, int64_t end) {
      steps.push_back({first, buffer.bytes});
      steps.push_back({end, -buffer.bytes});
    });
  }
  steps_ = SortedBlocks<Step, Rise>(std::move(steps));
}

void LoadCurve::add(const Buffer& buffer) {
  for_each_piece(buffer, [&](int64_t first, int64_t end) {
    steps_.insert({first, buffer.bytes});
    steps_.insert({end, -buffer.bytes});
  });
}

void LoadCurve::remove(const Buffer& buffer) {
  for_each_piece(buffer, [&](int64_t first, int64_t end) {
    steps_.erase({first, buffer.bytes});
    steps_.erase({end, -buffer.bytes});
  });
}

Bound LoadCurve::highest() const {
  int64_t most = 0;
  int64_t load = 0;
  int64_t load_before = 0;  // the block with the most
  const std::vector<Step>* its_steps = nullptr;
  for (const auto& block : steps_.blocks()) {
    if (load + block.summary.highest > most) {
      most = load + block.summary.highest;
      load_before = load;
      its_steps = &block.items;
    }
    load += block.summary.total;
  }
  if (its_steps == nullptr) return {};
  auto step = its_steps->begin();
  while ((load_before += step->bytes) < most) ++step;
  return {most, Bound::Kind::live_load, step->time, step->time + 1};
}

}  // namespace plimsoll::pack
