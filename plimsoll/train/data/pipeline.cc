#include "plimsoll/train/data/pipeline.h"

#include "plimsoll/train/data/engine.h"

namespace plimsoll::train::data {

Pipeline::Pipeline(std::shared_ptr<const Source> source, const PipelineOptions& options)
    : engine_(std::make_shared<Engine>(std::move(source), options)) {}

Pipeline::~Pipeline() { engine_->stop(); }

std::shared_ptr<const DataBatch> Pipeline::next() { return engine_->next(); }
int64_t Pipeline::batches_per_epoch() const { return engine_->batches_per_epoch(); }
const Source& Pipeline::source() const { return engine_->source(); }
Position Pipeline::position() const { return engine_->position(); }
void Pipeline::seek(Position position) { engine_->seek(position); }
int64_t Pipeline::memory_bytes() const { return engine_->memory_bytes(); }
void Pipeline::set_max_bytes(int64_t bytes) { engine_->set_max_bytes(bytes); }
int64_t Pipeline::least_bytes() const { return engine_->least_bytes(); }
int64_t Pipeline::max_bytes() const { return engine_->max_bytes(); }
int64_t Pipeline::batch_bytes() const { return engine_->batch_bytes(); }
void Pipeline::set_max_workers(int workers) { engine_->set_max_workers(workers); }
int64_t Pipeline::reading_bytes() const { return engine_->reading_bytes(); }
PipelineStats Pipeline::stats() const { return engine_->stats(); }

}  // namespace plimsoll::train::data
