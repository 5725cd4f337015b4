// From a model's name to a session that is ready to run: built, prepared, planned, parameters at their start.
#pragma once

#include <fmt/format.h>

#include <memory>
#include <string>

#include "cli/model_options.h"
#include "plimsoll/base/bytes.h"
#include "plimsoll/memory/limits.h"
#include "plimsoll/memory/process.h"
#include "plimsoll/plan/estimate.h"
#include "plimsoll/run/session.h"
#include "plimsoll/train/initialize.h"

namespace plimsoll::cli {

struct StartedSession {
  program::Bindings sizes;
  int threads = 1;
  int64_t predicted_peak_bytes = 0;  // what `estimate` says
  std::unique_ptr<run::Session> session;
};

inline StartedSession start_session(const ModelOptions& options, uint64_t seed) {
  const models::ModelInfo& model = models::find_model(options.model);
  const models::StepOptions asked = step_options(options);
  const models::Step step = models::build_whole_step(model, asked);
  const kernels::DeviceOptions device{.threads = options.threads};
  const kernels::Lowered lowered = kernels::prepare(step.program, device);
  StartedSession started{models::bindings(model, asked.sizes), lowered.threads, plan::estimate(lowered).peak_bytes,
                         nullptr};
  started.session = std::make_unique<run::Session>(step.program, device, machine_budget());
  train::start_values(started.session->executor(), step.inits, step.state_inits, seed, step.quantized);
  return started;
}

inline void print_bytes(std::string_view what, int64_t bytes, std::string_view note) {
  print("  {:<10} {:>12}  {:>19} bytes  {}\n", what, format_bytes(bytes), format_count(bytes), note);
}

struct Peaks {
  int64_t predicted_bytes;
  int64_t arena_bytes;
  int64_t process_bytes;
};

inline Peaks peaks_of(const StartedSession& started) {
  return {started.predicted_peak_bytes, started.session->executor().arena_bytes(), process_peak_bytes()};
}

inline void print_peaks(const Peaks& peaks) {
  print_bytes("predicted", peaks.predicted_bytes, "by `plimsoll estimate`");
  print_bytes("arena", peaks.arena_bytes, "that the step ran in");
  print_bytes("process", peaks.process_bytes, "at most, with code, libraries and the plan");
}

}  // namespace plimsoll::cli
