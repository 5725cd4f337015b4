// --data and --eval-data: the pipelines of `plimsoll train`, within its budget.
#include <fmt/format.h>

#include "cli/console.h"
#include "cli/train_options.h"
#include "plimsoll/base/bytes.h"

namespace plimsoll::cli {
namespace {

constexpr int64_t kEachWorker = 512 * kKiB;  // its stack, its part of the heap, what decoders take

std::shared_ptr<train::PipelineBatches> open_pipeline(const std::string& path, const train::ModelForms& model,
                                                      train::data::PipelineOptions options) {
  std::shared_ptr<const train::data::Source> source = train::data::open(path, train::open_options_for(model));
  options.batch = model.batch();
  const auto pipeline = std::make_shared<train::data::Pipeline>(std::move(source), options);
  if (pipeline->batches_per_epoch() == 0) {
    throw ArgumentError(fmt::format("{} has fewer samples than a step takes: {}, expected {} at least", quote(path),
                                    pipeline->source().size(), options.batch));
  }
  return std::make_shared<train::PipelineBatches>(pipeline);
}

}  // namespace

TrainData open_data(const TrainOptions& options, const train::ModelForms& model) {
  TrainData data;
  if (options.data.empty() && !options.eval_data.empty()) {
    throw ArgumentError("--eval-data is beside --data: give that, too");
  }
  if (options.data.empty()) return data;
  const auto on_corrupt = options.skip_corrupt ? train::data::OnCorrupt::skip : train::data::OnCorrupt::fatal;
  data.batches = open_pipeline(options.data, model,
                               {.shuffle = !options.no_shuffle,
                                .seed = options.seed,
                                .drop_last = true,
                                .workers = options.workers,
                                .prefetch = options.prefetch,
                                .on_corrupt = on_corrupt});
  tell("data: {}\n", data.batches->pipeline().source().describe());
  if (!options.eval_data.empty()) {
    data.evaluation = open_pipeline(options.eval_data, model, {.workers = 1, .on_corrupt = on_corrupt});
    tell("evaluation: {}\n", data.evaluation->pipeline().source().describe());
  }
  return data;
}

void limit_data(TrainData& data, const TrainOptions& options, int64_t budget_bytes) {
  data.reserved_bytes = 0;
  for (const auto& batches : {data.batches, data.evaluation}) {
    if (!batches) continue;
    const int64_t bytes = train::pipeline_bytes_within(batches->pipeline(), budget_bytes);
    batches->pipeline().set_max_bytes(bytes);
    data.reserved_bytes += bytes + kEachWorker * (options.workers > 0 ? options.workers : 2);
  }
}

void tell_skipped(const TrainData& data) {
  if (!data.batches) return;
  const train::data::PipelineStats stats = data.batches->pipeline().stats();
  if (stats.skipped == 0) return;
  tell("plimsoll: {} samples could not be read and were skipped\n", format_count(stats.skipped));
  for (const std::string& message : stats.skipped_messages) tell("  {}\n", message);
}

}  // namespace plimsoll::cli
