// From a model's name to a session that is ready to run: built, prepared, planned, parameters at their start.
#pragma once

#include <fmt/format.h>

#include <fstream>
#include <memory>
#include <string>

#include "cli/model_options.h"
#include "plimsoll/base/bytes.h"
#include "plimsoll/memory/limits.h"
#include "plimsoll/plan/estimate.h"
#include "plimsoll/run/session.h"

namespace plimsoll::cli {

struct StartedSession {
  program::Bindings sizes;
  int threads = 1;
  int64_t predicted_peak_bytes = 0;  // what `estimate` says
  std::unique_ptr<run::Session> session;
};

inline void start_values(run::Executor& executor, const models::Step& step, uint64_t seed) {
  const program::Program& program = executor.program();
  uint64_t stream = 0;
  const auto start = [&](const std::vector<program::Value>& values, const std::vector<models::Init>& inits) {
    for (size_t i = 0; i < inits.size(); ++i) {
      models::draw(inits[i], executor.data<float>(values[i]), seed, stream++);
    }
  };
  start(program.parameters, step.inits);
  start(program.state, step.state_inits);
}

inline StartedSession start_session(const ModelOptions& options, uint64_t seed) {
  const models::ModelInfo& model = models::find_model(options.model);
  const models::StepOptions asked = step_options(options);
  const models::Step step = models::build_whole_step(model, asked);
  const kernels::DeviceOptions device{.threads = options.threads};
  const kernels::Lowered lowered = kernels::prepare(step.program, device);
  StartedSession started{models::bindings(model, asked.sizes), lowered.threads, plan::estimate(lowered).peak_bytes,
                         nullptr};
  started.session = std::make_unique<run::Session>(step.program, device, machine_budget());
  start_values(started.session->executor(), step, seed);
  return started;
}

// The most memory that the process ever held at once, code and libraries included; 0 where the system does not tell.
inline int64_t process_peak_bytes() {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with("VmHWM:")) return std::stoll(line.substr(6)) * kKiB;
  }
  return 0;
}

inline void print_peaks(const StartedSession& started) {
  const auto line = [](std::string_view what, int64_t bytes, std::string_view note) {
    fmt::print("  {:<10} {:>12}  {:>19} bytes  {}\n", what, format_bytes(bytes), format_count(bytes), note);
  };
  line("predicted", started.predicted_peak_bytes, "by `plimsoll estimate`");
  line("arena", started.session->executor().arena_bytes(), "that the step ran in");
  line("process", process_peak_bytes(), "at most, with code, libraries and the plan");
}

}  // namespace plimsoll::cli
