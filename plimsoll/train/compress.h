// Compression of a trained model: pruning, and weights in 8 or 4 bits that are calibrated on data; and what each saves
// and costs, measured.
#pragma once

#include <cstdint>
#include <optional>

#include "plimsoll/kernels/device.h"
#include "plimsoll/models/step.h"
#include "plimsoll/models/weights/compressed.h"
#include "plimsoll/train/batches.h"

namespace plimsoll::train {

struct CompressOptions {
  int bits = 32;            // of weights of layers: 8, 4, or 32 as they are
  int64_t group = 32;       // of 4 bits: neighbours with one scale
  double prune = 0;         // share of channels, or of single weights, with the least values
  bool structured = false;  // whole channels
  int64_t calibration_batches = 4;
  int64_t test_batches = 8;  // that follow those
  int64_t times = 3;         // runs, of which the fastest counts
  uint64_t seed = 1;
};

// A model as it is or as it became.
struct CompressedForm {
  int64_t parameters = 0;    // elements
  int64_t weight_bytes = 0;  // as a file has them
  int64_t arena_bytes = 0;   // that an inference runs in: its peak
  double least_s = 0;        // an inference of a batch
  std::optional<double> accuracy = {};
};

struct Compression {
  models::CompressedTensors tensors;
  CompressedForm before;
  CompressedForm after;
  double relative_error = 0;             // the length of the difference of the results, by that of the results before
  std::optional<double> agreement = {};  // share of samples with the same class as before
  double zero_share = 0;                 // of the weights of layers, afterwards
  int64_t channels = 0;                  // that could go
  int64_t pruned_channels = 0;           // that went
  int64_t test_samples = 0;
};

// `data` gives batches of the size of `step`; nothing: synthetic inputs, and no calibration. In 8 bits it runs in i8,
// in 4 bits in f32 with the values that 4 bits have: there are no kernels for those. ArgumentError for shares and bits
// that there are not, and for data that has no batch left to test on.
Compression compress(const models::ModelInfo& model, const models::StepOptions& step,
                     const kernels::DeviceOptions& device, Batches* data, const CompressOptions& options);

}  // namespace plimsoll::train
