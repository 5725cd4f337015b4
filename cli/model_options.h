// Which step of which model: the options that estimate, train and run share.
#pragma once

#include <fmt/format.h>

#include <charconv>
#include <optional>
#include <string>
#include <vector>

#include "cli/command.h"
#include "plimsoll/base/error.h"
#include "plimsoll/kernels/device.h"
#include "plimsoll/models/step.h"

namespace plimsoll::cli {

inline constexpr const char* kAllowHelp = "Measures that change the numbers: batch-norm-micro-batches, 8-bit-state";

struct ModelOptions {
  std::string model;
  std::optional<int64_t> batch = {};
  std::optional<int64_t> sequence = {};
  std::string optimizer = "adam";
  std::string precision = "f32";
  std::string mode = "train";
  int threads = 0;
  bool json = false;
};

// At least one; that there are not too many is checked where they are used.
inline std::string require_thread(const std::string& text) {
  int threads = 1;
  std::from_chars(text.data(), text.data() + text.size(), threads);
  if (threads >= 1) return {};
  throw ArgumentError(fmt::format("--threads is {}, expected 1 to {}", threads, kernels::thread_count({})));
}

inline void add_model_options(const Command& verb, ModelOptions& options) {
  verb.add_option("MODEL", options.model, "A built-in model; `plimsoll models` lists them").required();
  verb.add_option("--batch,--batch-size", options.batch, "Samples in a step");
  verb.add_option("--seq", options.sequence, "Tokens in a sample");
  verb.add_option("--threads", options.threads, "Threads to compute with; all when not given").check(require_thread);
  verb.add_flag("--json", options.json, "Print JSON");
}

inline void add_optimizer_option(const Command& verb, ModelOptions& options) {
  verb.add_option("--optimizer", options.optimizer, "sgd momentum adam adamw").shows_default();
}

inline program::Optimizer parse_optimizer(const std::string& text) {
  const auto optimizer = program::try_parse_optimizer(text);
  if (!optimizer) {
    throw ArgumentError(fmt::format("--optimizer is {}, expected sgd, momentum, adam or adamw", quote(text)));
  }
  return *optimizer;
}

inline bool parse_training(const std::string& mode) {
  if (mode != "train" && mode != "infer") {
    throw ArgumentError(fmt::format("--mode is {}, expected train or infer", quote(mode)));
  }
  return mode == "train";
}

inline models::StepOptions step_options(const ModelOptions& options) {
  models::StepOptions step;
  step.training = parse_training(options.mode);
  step.precision = parse_dtype(options.precision);
  step.train.optimizer = parse_optimizer(options.optimizer);
  if (options.batch) step.sizes["batch"] = *options.batch;
  if (options.sequence) step.sizes["sequence"] = *options.sequence;
  return step;
}

}  // namespace plimsoll::cli
