// The learning rate of each step, as a pure function of its number: nothing to keep in a checkpoint but the step.
#pragma once

#include <cstdint>
#include <string_view>

namespace plimsoll::train {

enum class ScheduleKind : uint8_t {
  constant,
  cosine,  // from the rate down to the end's share of it, as half a cosine
  linear,  // likewise in a line
  step,    // multiplied by `factor` after every `every` steps
};
// ArgumentError that lists the names.
ScheduleKind parse_schedule(std::string_view text);

struct Schedule {
  ScheduleKind kind = ScheduleKind::constant;
  double rate = 1e-3;   // after the warm-up
  int64_t steps = 0;    // of the whole run; cosine and linear only
  int64_t warmup = 0;   // steps in which the rate grows from 0 in a line: 1/warmup of it in the first one
  double end = 0;       // share of the rate in the last step; cosine and linear only
  int64_t every = 0;    // step only
  double factor = 0.1;  // step only

  // Of step 1, 2, ..; beyond the last one as in that.
  double rate_of(int64_t step) const;
};

}  // namespace plimsoll::train
