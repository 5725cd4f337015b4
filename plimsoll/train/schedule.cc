#include "plimsoll/train/schedule.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numbers>

#include "plimsoll/base/error.h"

namespace plimsoll::train {

ScheduleKind parse_schedule(std::string_view text) {
  if (text == "constant") return ScheduleKind::constant;
  if (text == "cosine") return ScheduleKind::cosine;
  if (text == "linear") return ScheduleKind::linear;
  if (text == "step") return ScheduleKind::step;
  throw ArgumentError(fmt::format("--schedule is {}, expected constant, cosine, linear or step", quote(text)));
}

double Schedule::rate_of(int64_t number) const {
  if (number <= warmup) return rate * static_cast<double>(number) / static_cast<double>(warmup);
  const int64_t after = number - warmup;  // 1 in the first step after the warm-up
  if (kind == ScheduleKind::constant) return rate;
  if (kind == ScheduleKind::step) {
    const int64_t drops = every <= 0 ? 0 : (after - 1) / every;
    return rate * std::pow(factor, static_cast<double>(drops));
  }
  const int64_t all = std::max<int64_t>(1, steps - warmup - 1);
  const double way = std::min(1.0, static_cast<double>(after - 1) / static_cast<double>(all));
  const double left = kind == ScheduleKind::linear ? 1 - way : (1 + std::cos(std::numbers::pi * way)) / 2;
  return rate * (end + (1 - end) * left);
}

}  // namespace plimsoll::train
