// Which step of which model, and how it may be made to fit: the options that verbs share.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cli/command.h"
#include "plimsoll/kernels/device.h"
#include "plimsoll/models/step.h"
#include "plimsoll/train/rank_estimate.h"
#include "plimsoll/train/start_session.h"

namespace plimsoll::cli {

inline constexpr const char* kAllowHelp = "Measures that change the numbers: batch-norm-micro-batches, 8-bit-state";

struct ModelOptions {
  std::string model;
  std::optional<int64_t> batch = {};
  std::optional<int64_t> sequence = {};
  std::string optimizer = "adam";
  std::string precision = "f32";
  std::string mode = "train";
  std::string device = "cpu";
  int threads = 0;
  bool json = false;
  // Of a file.
  std::vector<std::string> dims = {};    // "name=1024"
  std::vector<std::string> inputs = {};  // "name=2x128"
  std::string loss = {};
  bool init = false;
  bool assume_shapes = false;
  // What is trained.
  std::vector<std::string> freeze = {};
  std::string lora = {};
  std::vector<std::string> lora_targets = {};
  std::string weights = {};  // a file with values of parameters
};

void add_model_options(const Command& verb, ModelOptions& options);
void add_device_option(const Command& verb, ModelOptions& options);
void add_optimizer_option(const Command& verb, ModelOptions& options);
void add_rank_options(const Command& verb, train::RankOptions& options);

// As it is named: built-in, or of a file.
models::ModelInfo find_plain_model(const ModelOptions& options);
// With the values that are given and what is to be trained of it.
models::ModelInfo find_model(const ModelOptions& options);

// Before a model is built, so that a missing card or library is told first.
kernels::DeviceOptions device_options(const ModelOptions& options);
models::StepOptions step_options(const ModelOptions& options);

// What is worth knowing of a model of a file: the loss that was chosen, what was put together again.
void tell_notes(const models::ModelInfo& model, const models::StepOptions& step);

// In the memory that the step takes as it is. Notes are told.
train::StartedSession start_session(const ModelOptions& options, uint64_t seed);

// How a step may be made to fit.
struct FormOptions {
  std::vector<std::string> allow = {};  // measures that change the numbers
  bool micro_batches = true;
  bool recompute = true;
  bool measure = false;  // time kernels, and remember the times
  double measure_s = 3;  // at most
};

// Notes and progress go to stderr.
train::Listener terminal_listener();

// `sizes` in place of those that the options give.
train::StepRequest request_of(const ModelOptions& options, const FormOptions& form,
                              const program::Bindings& sizes = {});

}  // namespace plimsoll::cli
