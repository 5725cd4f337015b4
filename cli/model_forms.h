// From the options of a verb to the step that it asks for.
#pragma once

#include <fmt/format.h>

#include <string>
#include <vector>

#include "cli/console.h"
#include "cli/model_options.h"
#include "plimsoll/plan/batch_chunks.h"
#include "plimsoll/train/model_forms.h"

namespace plimsoll::cli {

// How a step may be made to fit.
struct FormOptions {
  std::vector<std::string> allow = {};  // measures that change the numbers
  bool micro_batches = true;
  bool measure = false;  // time kernels, and remember the times
  double measure_s = 3;  // at most
};

// Notes and progress go to stderr.
inline train::Listener terminal_listener() {
  train::Listener listener{.on_note = [](const std::string& note) { tell("note: {}\n", note); }};
  if (shows_progress()) {
    listener.on_measure = [](size_t done, size_t all) {
      show_progress(fmt::format("measuring kernels: {} of {}", done, all));
    };
    listener.on_alternative = [](const std::string& how) {
      show_progress(fmt::format("looking for what would fit: {}", how));
    };
  }
  return listener;
}

// `sizes` in place of those that the options give.
inline train::StepRequest request_of(const ModelOptions& options, const FormOptions& form,
                                     const program::Bindings& sizes = {}) {
  train::StepRequest request{.model = models::find_model(options.model),
                             .step = step_options(options),
                             .allow = form.allow,
                             .micro_batches = form.micro_batches,
                             .measure = form.measure,
                             .measure_s = form.measure_s,
                             .threads = options.threads,
                             .listener = terminal_listener()};
  for (const auto& [symbol, size] : sizes) request.step.sizes[symbol] = size;
  return request;
}

// "the batch in 4 micro-batches of 8, the last of 3"
inline std::string batch_text(const plan::StepPlan& step) {
  const std::vector<int64_t>& sizes = step.sizes;
  if (step.form.chunks > 1) return fmt::format("the batch as a whole, {}", plan::chunks_text(step.form));
  if (sizes.size() == 1) return "the batch as a whole";
  std::string text = fmt::format("the batch in {} micro-batches of {}", sizes.size(), sizes.front());
  if (sizes.back() != sizes.front()) text += fmt::format(", the last of {}", sizes.back());
  return text;
}

}  // namespace plimsoll::cli
