// Where a loop takes its batches from: a data pipeline, or anything that can be put back to a place it was at.
#pragma once

#include <memory>

#include "plimsoll/train/batch.h"
#include "plimsoll/train/checkpoint.h"

namespace plimsoll::train {

struct Delivered {
  std::shared_ptr<const Batch> batch;  // nullptr: the epoch is over; the call after that begins the next one
  int64_t samples = 0;
};

class Batches {
 public:
  virtual ~Batches() = default;

  virtual Delivered next() = 0;
  virtual int64_t batches_per_epoch() const = 0;
  // Of the next batch. Put back to it, the same batches follow.
  virtual DataPosition position() const = 0;
  virtual void seek(const DataPosition& position) = 0;
};

}  // namespace plimsoll::train
