// Data made up for a program, so that it can run without any: numbers around zero, and indices that are in range for
// what they index. The same seed gives the same data, and a sample does not depend on the batch it is in.
#pragma once

#include "plimsoll/run/executor.h"
#include "plimsoll/train/batch.h"

namespace plimsoll::train {

// How many values an index that this input holds may have, by the ops that read it: rows of a table, classes of logits.
// 2 when no op says.
int64_t index_range(const program::Program& program, program::Value input);

class SyntheticBatch : public Batch {
 public:
  explicit SyntheticBatch(uint64_t seed, int threads = 1) : seed_(seed), threads_(threads) {}

  // f32, the same rounded to f16 or bf16, and i64; UnsupportedError for others.
  void read(const program::Program& program, program::Value input, int64_t first,
            std::span<std::byte> into) const override;

 private:
  uint64_t seed_;
  int threads_;
};

// Fills every input of the program with the first samples.
void fill_inputs(run::Executor& executor, uint64_t seed);

}  // namespace plimsoll::train
