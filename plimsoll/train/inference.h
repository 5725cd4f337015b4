// Runs a model forward within a memory budget for the whole process.
//
//   pl::Inference inference(model, {.batch = 8, .budget = "256MiB"});
//   inference.write("fc.weight", weights);
//   std::vector<float> logits = inference.run(pl::ArrayBatch({{"x", images}}));
//
// Not thread-safe.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "plimsoll/models/zoo/zoo.h"
#include "plimsoll/train/batch.h"

namespace plimsoll::train {

struct InferenceOptions {
  int64_t batch = 0;             // samples of a run; 0: the model's usual
  program::Bindings sizes = {};  // of other symbolic dimensions
  std::string budget = "auto";   // of the whole process: "2GiB"; "auto": what the machine can give
  DType precision =
      DType::f32;  // of a model of the zoo: also bf16, f16 and i8 (weights); one's own has that of its Net
  std::string device = "cpu";
  int threads = 0;    // 0: all that the machine has
  uint64_t seed = 1;  // of the parameters, until they are written
};

class Inference {
 public:
  // DoesNotFit, ArgumentError and UnsupportedError as from Training. A model of one's own is built for inference:
  // Net net({.training = false}).
  Inference(models::ModelInfo model, const InferenceOptions& options);
  Inference(models::Model model, const InferenceOptions& options);
  Inference(Inference&&) noexcept;
  Inference& operator=(Inference&&) noexcept;
  ~Inference();

  // The model's result for these samples, row-major.
  std::vector<float> run(const Batch& batch);

  int64_t predicted_peak_bytes() const;  // of the process
  int64_t arena_bytes() const;

  std::vector<std::string> names() const;
  void write(std::string_view name, std::span<const float> values);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace plimsoll::train
