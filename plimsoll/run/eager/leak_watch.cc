#include "plimsoll/run/eager/leak_watch.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "plimsoll/base/bytes.h"

namespace plimsoll::eager {
namespace {

constexpr size_t kLeastSteps = 5;
constexpr double kLeastFit = 0.9;      // share of the variance that the line explains
constexpr double kLeastGrowth = 0.75;  // share of steps in which bytes grew

struct Line {
  double slope = 0;
  double fit = 0;  // R squared
};

// Least squares over the steps 0, 1, 2 ..
Line fit_line(const std::deque<int64_t>& bytes) {
  const auto n = static_cast<double>(bytes.size());
  const double mean_x = (n - 1) / 2;
  double mean_y = 0;
  for (const int64_t y : bytes) mean_y += static_cast<double>(y) / n;
  double xx = 0;
  double xy = 0;
  double yy = 0;
  for (size_t i = 0; i < bytes.size(); ++i) {
    const double dx = static_cast<double>(i) - mean_x;
    const double dy = static_cast<double>(bytes[i]) - mean_y;
    xx += dx * dx;
    xy += dx * dy;
    yy += dy * dy;
  }
  return {xy / xx, yy == 0 ? 0 : xy * xy / (xx * yy)};
}

double share_of_growth(const std::deque<int64_t>& bytes) {
  int64_t grew = 0;
  for (size_t i = 1; i < bytes.size(); ++i) grew += bytes[i] > bytes[i - 1] ? 1 : 0;
  return static_cast<double>(grew) / static_cast<double>(bytes.size() - 1);
}

}  // namespace

std::string Leak::text() const {
  std::string text = fmt::format("{} grows by {} a step: {} in {} blocks after {} steps", place,
                                 format_bytes(std::llround(bytes_per_step)), format_bytes(live_bytes),
                                 format_count(live_blocks), format_count(steps));
  if (steps_left) text += fmt::format("; the budget is full in {} steps", format_count(*steps_left));
  return text;
}

void LeakWatch::step() {
  ++steps_;
  for (auto& [key, history] : histories_) {
    history.bytes.push_back(0);
    history.blocks = 0;
  }
  for (const LiveTag& tag : pool_.live_by_tag()) {
    History& history = histories_[{tag.category, tag.name}];
    if (history.bytes.empty()) history.bytes.push_back(0);
    history.bytes.back() += tag.bytes;
    history.blocks += tag.blocks;
  }
  for (auto& [key, history] : histories_) {
    if (static_cast<int64_t>(history.bytes.size()) > window_) history.bytes.pop_front();
  }
}

std::vector<Leak> LeakWatch::leaks() const {
  std::vector<Leak> leaks;
  const int64_t free_bytes = pool_.budget().bytes - pool_.stats().live_bytes;
  for (const auto& [key, history] : histories_) {
    if (history.bytes.size() < kLeastSteps) continue;
    const Line line = fit_line(history.bytes);
    if (line.slope < 1 || line.fit < kLeastFit || share_of_growth(history.bytes) < kLeastGrowth) continue;
    leaks.push_back({.place = key.second,
                     .category = key.first,
                     .bytes_per_step = line.slope,
                     .live_bytes = history.bytes.back(),
                     .live_blocks = history.blocks,
                     .steps = static_cast<int64_t>(history.bytes.size()),
                     .steps_left = static_cast<int64_t>(static_cast<double>(free_bytes) / line.slope)});
  }
  std::sort(leaks.begin(), leaks.end(),
            [](const Leak& a, const Leak& b) { return a.bytes_per_step > b.bytes_per_step; });
  return leaks;
}

}  // namespace plimsoll::eager
