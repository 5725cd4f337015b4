// A step of a model ready to run in the memory that it takes as it is: built, prepared, parameters at their start.
#pragma once

#include <memory>

#include "plimsoll/kernels/device.h"
#include "plimsoll/models/step.h"
#include "plimsoll/run/session.h"

namespace plimsoll::train {

struct StartedSession {
  program::Bindings sizes;
  int threads = 1;
  int64_t predicted_peak_bytes = 0;  // what `estimate` says
  std::unique_ptr<run::Session> session;
};

// ResourceExhausted when the device does not have the memory.
StartedSession start_session(const models::ModelInfo& model, const models::StepOptions& options,
                             const kernels::DeviceOptions& device, uint64_t seed);

struct Peaks {
  int64_t predicted_bytes;
  int64_t arena_bytes;
  int64_t process_bytes;  // at most until now, with code, libraries and the plan
};

Peaks peaks_of(const StartedSession& started);

}  // namespace plimsoll::train
