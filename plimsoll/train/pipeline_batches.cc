#include "plimsoll/train/pipeline_batches.h"

#include <algorithm>

#include "plimsoll/train/synthetic.h"

namespace plimsoll::train {
namespace {

constexpr int64_t kBudgetShare = 8;
constexpr int64_t kBatchesAhead = 16;

}  // namespace

Delivered PipelineBatches::next() {
  std::shared_ptr<const data::DataBatch> batch = pipeline_->next();
  const int64_t samples = batch ? batch->size_of_whole() : 0;
  return {std::move(batch), samples};
}

DataPosition PipelineBatches::position() const {
  const data::Position position = pipeline_->position();
  return {position.epoch, position.sample};
}

void PipelineBatches::seek(const DataPosition& position) { pipeline_->seek({position.epoch, position.sample}); }

data::OpenOptions open_options_for(const ModelForms& model) {
  const StepRequest& request = model.request();
  const program::Program step = models::build_step(request.model, request.step);
  data::OpenOptions options;
  for (const program::Value input : step.inputs) {
    const program::ValueInfo& info = step[input];
    const program::Dims& shape = info.type.shape;
    if (info.name == "target" && info.type.dtype == DType::i64) {
      options.classes = index_range(step, input);
    } else if (is_floating(info.type.dtype) && shape.rank() == 4 && info.name != "target") {
      options.channels = shape[1].constant();
      options.height = shape[2].constant();
      options.width = shape[3].constant();
    } else if (info.type.dtype == DType::i64 && shape.rank() == 2) {
      options.sequence = shape[1].constant();
      options.vocabulary = index_range(step, input);
    }
  }
  return options;
}

int64_t pipeline_bytes_within(const data::Pipeline& pipeline, int64_t budget_bytes) {
  const int64_t least = pipeline.least_bytes() + pipeline.reading_bytes();
  const int64_t ahead = (budget_bytes / kBudgetShare - least) / pipeline.batch_bytes();
  return least + std::clamp<int64_t>(ahead, 1, kBatchesAhead - 1) * pipeline.batch_bytes();
}

}  // namespace plimsoll::train
