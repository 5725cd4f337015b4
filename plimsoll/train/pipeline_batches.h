// Batches of a data pipeline, for a loop; and how to read data for a model.
#pragma once

#include <memory>
#include <string>

#include "plimsoll/train/batches.h"
#include "plimsoll/train/data/open.h"
#include "plimsoll/train/data/pipeline.h"
#include "plimsoll/train/model_forms.h"

namespace plimsoll::train {

class PipelineBatches : public Batches {
 public:
  explicit PipelineBatches(std::shared_ptr<data::Pipeline> pipeline) : pipeline_(std::move(pipeline)) {}

  Delivered next() override;
  int64_t batches_per_epoch() const override { return pipeline_->batches_per_epoch(); }
  DataPosition position() const override;
  void seek(const DataPosition& position) override;

  data::Pipeline& pipeline() { return *pipeline_; }

 private:
  std::shared_ptr<data::Pipeline> pipeline_;
};

// The sizes of images, sequences, classes and vocabularies as the model's inputs have them.
data::OpenOptions open_options_for(const ModelForms& model);

// What a pipeline may take of a budget, readers and buffers: an eighth at most, and no more than batches ahead are
// worth; but two batches in any case.
int64_t pipeline_bytes_within(const data::Pipeline& pipeline, int64_t budget_bytes);

}  // namespace plimsoll::train
