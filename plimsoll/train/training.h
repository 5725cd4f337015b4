// Trains a model within a memory budget for the whole process. Construction plans the step: the whole batch at once
// where that fits, else with recomputation, micro-batches, batch chunks or spilling, whichever is fastest. A step then
// stays within the budget, and gives the gradients of the whole batch whatever was chosen.
//
//   pl::Training training(model, {.batch = 256, .budget = "2GiB", .optimizer = pl::adam(1e-3)});
//   for (const pl::Batch& batch : loader) float loss = training.step(batch);
//
// Not thread-safe.
#pragma once

#include <functional>
#include <iosfwd>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "plimsoll/base/error.h"
#include "plimsoll/models/zoo/zoo.h"
#include "plimsoll/program/train_step.h"
#include "plimsoll/train/batch.h"

namespace plimsoll::train {

class FittedTraining;

struct Optimizer {
  program::TrainOptions options = {};
  double lr = 1e-3;
};
Optimizer sgd(double lr);
Optimizer momentum(double lr, double momentum = 0.9);
Optimizer adam(double lr = 1e-3);
Optimizer adamw(double lr = 1e-3, double weight_decay = 1e-2);
Optimizer lion(double lr = 1e-4, double weight_decay = 0);
Optimizer adafactor(double lr = 1e-2);  // its state takes bytes of the sides of a matrix, not of its area

struct TrainingOptions {
  int64_t batch = 0;             // samples of a step; 0: the model's usual
  program::Bindings sizes = {};  // of other symbolic dimensions: {"sequence", 128}
  std::string budget = "auto";   // of the whole process: "2GiB"; "auto": what the machine can give
  Optimizer optimizer = adam();
  DType precision = DType::f32;  // of a model of the zoo; one's own has the dtype of its Net
  std::string device = "cpu";
  int threads = 0;                      // 0: all that the machine has
  uint64_t seed = 1;                    // of initial values and dropout
  std::vector<std::string> allow = {};  // measures that change the numbers: "8-bit-state", "batch-norm-micro-batches"
  std::string spill_dir = {};           // on a disk, for what does not fit in memory; empty: nothing is spilled
  bool micro_batches = true;            // whether the batch may be divided
  bool recompute = true;                // whether results may be computed again instead of being kept
  bool measure = true;                  // time kernels where their times are not known
  std::function<void(const std::string&)> on_note = {};
};

// What was planned. Bytes of the process: arena and overhead; the overhead is code, libraries, kernels and stacks.
struct TrainingPlan {
  struct Measure {
    std::string kind;  // "recompute", "micro-batches", ..
    std::string what;
    int64_t saved_bytes = 0;
    double cost_s = 0;  // in a step
  };
  int64_t budget_bytes = 0;
  int64_t predicted_peak_bytes = 0;
  int64_t arena_bytes = 0;
  int64_t overhead_bytes = 0;
  int64_t unplanned_bytes = 0;  // the arena of the whole batch at once
  double predicted_step_s = 0;
  std::vector<int64_t> micro_batches = {};  // samples of each; one: the batch as a whole
  std::vector<Measure> measures = {};
};
std::ostream& operator<<(std::ostream& out, const TrainingPlan& plan);

// No plan fits the budget. Thrown before the first step.
class DoesNotFit : public Error {
 public:
  struct Setting {
    std::string option;  // of TrainingOptions and of the command line: "batch"
    std::string value;   // "48"
  };
  struct Way {
    std::vector<Setting> settings;  // mostly one; several where only together they fit
    int64_t predicted_peak_bytes = 0;
    double predicted_s_per_sample = 0;
  };

  DoesNotFit(const std::string& message, int64_t smallest_budget_bytes, std::vector<Way> ways)
      : Error(message), smallest_budget_bytes_(smallest_budget_bytes), ways_(std::move(ways)) {}

  int64_t smallest_budget_bytes() const { return smallest_budget_bytes_; }
  // Other settings that were planned and fit, the fastest first.
  const std::vector<Way>& alternatives() const { return ways_; }

 private:
  int64_t smallest_budget_bytes_;
  std::vector<Way> ways_;
};

class Training {
 public:
  // DoesNotFit; ArgumentError for options that make no sense; UnsupportedError for a device that was not built.
  Training(models::ModelInfo model, const TrainingOptions& options);
  // A model of one's own.
  Training(models::Model model, const TrainingOptions& options);
  Training(Training&&) noexcept;
  Training& operator=(Training&&) noexcept;
  ~Training();

  // Runs a step on this batch and returns its loss, over the whole batch.
  float step(const Batch& batch);
  // The same on synthetic data, the same in every step: to see that a model trains, and how fast.
  float step();

  int64_t steps() const;
  void set_learning_rate(double lr);
  // Plans again for another budget and goes on with the same parameters and state. On DoesNotFit the training is over.
  void set_budget(std::string_view budget);

  // The whole run as a safetensors file (checkpoint.h): weights under PyTorch's names, optimizer state, step and seed.
  // `path` is the old file or the new one, whatever happens. SystemError.
  void save(const std::string& path) const;
  // Goes on from a file, or the newest one of a folder of checkpoints, with the same bits as if it had never stopped,
  // whatever the budget; to rounding where micro-batches differ. ArgumentError that names the first difference for
  // another model or optimizer; InputError for what is no checkpoint.
  void load(const std::string& path);

  const TrainingPlan& plan() const;
  FittedTraining& fitted();  // what Loop runs on

  // Parameters and the state of the model, by name; ArgumentError for one that there is not, or of another size.
  std::vector<std::string> names() const;
  std::vector<float> read(std::string_view name) const;
  void write(std::string_view name, std::span<const float> values);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace plimsoll::train
