// Steps of training that were run: how long one takes, and the rest.
#pragma once

#include <cstdint>
#include <span>
#include <string>

namespace plimsoll::report {

struct TrainedStep {
  double loss = 0;
  double seconds = 0;
};

// 0 where there are none.
double median_seconds(std::span<const TrainedStep> steps);

// ", about 12.3 s a step, 2 min 03 s left" by the last steps, where `left` of them are to come; nothing before the
// first one is done.
std::string time_left(std::span<const TrainedStep> steps, int64_t left);

}  // namespace plimsoll::report
