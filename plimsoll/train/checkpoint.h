// A training run as one safetensors file, from which it goes on with the same bits: weights under PyTorch's names, the
// optimizer's state, and as texts beside them the step, the seed and the place in the data. Nothing of it depends on
// the plan: a run goes on under another budget, in other micro-batches, with its state in memory or in a spill file.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "plimsoll/train/kept_tensors.h"

namespace plimsoll::train {

// The place in the data after the last step: epochs that are over, and samples of the one that is not.
struct DataPosition {
  int64_t epoch = 0;
  int64_t sample = 0;
  bool operator==(const DataPosition&) const = default;
};

// What a checkpoint says beside its tensors.
struct RunState {
  std::string model = {};
  std::string optimizer = {};
  std::string precision = {};
  int64_t step = 0;  // steps that are done; with the seed, all that dropout draws by
  uint64_t seed = 1;
  double rate = 0;  // of the last step
  DataPosition data = {};
  // Of the best evaluation, and how many came after it; nothing before the first.
  std::optional<double> best_loss = {};
  int64_t evaluations_since_best = 0;
  int64_t evaluated_at = -1;  // step of the last evaluation that these count
};
models::StoredTexts texts_of(const RunState& state);

// Writes the whole file, then gives it its name, so that `path` is the old one or the new one, whatever happens. Takes
// two megabytes. SystemError when the system refuses; what was there stays.
void save_checkpoint(const std::string& path, const std::vector<KeptTensor>& tensors, const RunState& state);

// A checkpoint whose header has been read.
class Checkpoint {
 public:
  // A file, or a folder of checkpoints, whose newest one it is. InputError for what is no checkpoint.
  explicit Checkpoint(const std::string& path);

  const std::string& path() const { return path_; }
  const RunState& state() const { return state_; }
  // Whether the optimizer's state is held in 8 bits.
  bool has_8bit_state() const;

  // ArgumentError that names the first difference where it is of another model or optimizer. Nothing is changed then.
  void require_fits(const std::vector<KeptTensor>& tensors) const;
  // Checks first. SystemError when reading fails midway; the run is then in no state to go on.
  void load(const std::vector<KeptTensor>& tensors) const;

 private:
  std::string path_;
  models::StoredFile file_;
  RunState state_;
};

}  // namespace plimsoll::train
