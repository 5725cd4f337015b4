#include "cli/session_start.h"

#include "cli/console.h"
#include "plimsoll/base/bytes.h"

namespace plimsoll::cli {

StartedSession start_session(const ModelOptions& options, uint64_t seed) {
  const models::ModelInfo model = find_model(options);
  const models::StepOptions step = step_options(options);
  const kernels::DeviceOptions device = device_options(options);
  tell_notes(model, step);
  return train::start_session(model, step, device, seed);
}

void print_peaks(const Peaks& peaks) {
  print_bytes("predicted", peaks.predicted_bytes, "by `plimsoll estimate`");
  print_bytes("arena", peaks.arena_bytes, "that the step ran in");
  print_bytes("process", peaks.process_bytes, "at most, with code, libraries and the plan");
}

void print_bytes(std::string_view what, int64_t bytes, std::string_view note) {
  print("  {:<10} {:>12}  {:>19} bytes  {}\n", what, format_bytes(bytes), format_count(bytes), note);
}

}  // namespace plimsoll::cli
