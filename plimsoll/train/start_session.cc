#include "plimsoll/train/start_session.h"

#include "plimsoll/device/device.h"
#include "plimsoll/kernels/prepare.h"
#include "plimsoll/memory/process.h"
#include "plimsoll/plan/estimate.h"
#include "plimsoll/train/initialize.h"

namespace plimsoll::train {

StartedSession start_session(const models::ModelInfo& model, const models::StepOptions& options,
                             const kernels::DeviceOptions& device, uint64_t seed) {
  const models::Step step = models::build_whole_step(model, options);
  const kernels::Lowered lowered = kernels::prepare(step.program, device);
  StartedSession started{models::bindings(model, options.sizes), lowered.threads, plan::estimate(lowered).peak_bytes,
                         nullptr};
  started.session = std::make_unique<run::Session>(step.program, device, device::find_device(device.device).budget());
  start_values(started.session->executor(), step.inits, step.state_inits, seed, step.quantized);
  return started;
}

Peaks peaks_of(const StartedSession& started) {
  return {started.predicted_peak_bytes, started.session->executor().arena_bytes(), process_peak_bytes()};
}

}  // namespace plimsoll::train
