// Where a loss that is not finite comes from: the samples of a batch whose own loss is not, and whether their data is.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "plimsoll/run/executor.h"
#include "plimsoll/train/batch.h"

namespace plimsoll::train {

struct NotFinite {
  int64_t first = 0;  // sample of the batch
  int64_t samples = 1;
  std::optional<int64_t> index = {};  // of the first one in the data, where it is of some
  std::string input = {};             // that has such a value in the first one; empty: all inputs are finite
};

// Of the samples from `first` on that a program takes of the batch, the first with a value in one of these inputs that
// is not finite; else all of them. Reads them again into the inputs.
NotFinite find_not_finite(run::Executor& executor, const std::vector<program::Value>& inputs, const Batch& batch,
                          int64_t first);

// "sample 5 of the batch (42 of the data): its x has values that are not finite"
std::string text_of(const NotFinite& found);

}  // namespace plimsoll::train
