#include "plimsoll/train/run_data.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <set>
#include <sstream>
#include <thread>

#include "plimsoll/base/bytes.h"
#include "plimsoll/base/error.h"
#include "plimsoll/device/gather.h"
#include "plimsoll/train/data/adaptors.h"

namespace plimsoll::train {
namespace {

constexpr int64_t kEachWorker = 512 * kKiB;  // its stack, its part of the heap
constexpr int64_t kWorkersShare = 16;        // of the budget, for workers whose number is automatic

data::SourcePtr open_source(const std::string& path, const ModelForms& model, const DataOptions& options) {
  data::OpenOptions open = open_options_for(model);
  open.mean = options.mean;
  open.std = options.std;
  return data::open(path, open);
}

// Of what is trained on.
data::SourcePtr adapted(data::SourcePtr source, const DataOptions& options) {
  if (options.take > 0) source = data::take(std::move(source), options.take);
  if (options.cache_bytes > 0) return data::cache_in_memory(std::move(source), options.cache_bytes);
  if (!options.cache_folder.empty()) return data::cache_in_file(std::move(source), options.cache_folder);
  return source;
}

std::shared_ptr<PipelineBatches> open_pipeline(data::SourcePtr source, const std::string& path, const ModelForms& model,
                                               data::PipelineOptions options) {
  if (options.batch == 0) options.batch = model.batch();
  const auto pipeline = std::make_shared<data::Pipeline>(std::move(source), options);
  if (pipeline->batches_per_epoch() == 0) {
    throw ArgumentError(fmt::format("{} has fewer samples than a step takes: {}, expected {} at least", quote(path),
                                    pipeline->source().size(), options.batch));
  }
  return std::make_shared<PipelineBatches>(pipeline);
}

// As many as cores where the budget has room for them.
int automatic_workers(const data::Pipeline& pipeline, int64_t budget_bytes) {
  const int64_t each = kEachWorker + pipeline.source().reader_bytes();
  const auto cores = static_cast<int64_t>(std::max(1U, std::thread::hardware_concurrency()));
  return static_cast<int>(std::clamp<int64_t>(budget_bytes / kWorkersShare / each, 1, cores));
}

// The lines that any rank has, each once, in the order of ranks.
std::vector<std::string> lines_of_all(const RankPart& part, const std::vector<std::string>& own) {
  if (!part) return own;
  std::vector<std::string> all;
  std::set<std::string> known;
  for (const std::string& text : device::gather_texts(*part.ranks, fmt::format("{}", fmt::join(own, "\n")))) {
    std::istringstream lines(text);
    for (std::string line; std::getline(lines, line);) {
      if (known.insert(line).second) all.push_back(line);
    }
  }
  return all;
}

}  // namespace

Skipped skipped_of(const RunData& data, const RankPart& part) {
  const data::PipelineStats stats = data.batches->pipeline().stats();
  std::vector<std::string> samples;
  for (const int64_t sample : stats.skipped_samples) samples.push_back(std::to_string(sample));
  return {static_cast<int64_t>(lines_of_all(part, samples).size()), lines_of_all(part, stats.skipped_messages)};
}

RunData open_data(const DataOptions& options, const ModelForms& model, uint64_t seed) {
  RunData opened;
  const auto on_corrupt = options.skip_corrupt ? data::OnCorrupt::skip : data::OnCorrupt::fatal;
  if (!options.path.empty()) {
    const data::PipelineOptions pipeline{.batch = options.batch,
                                         .part = options.part,
                                         .shuffle = options.shuffle,
                                         .seed = seed,
                                         .shuffle_buffer = options.shuffle_buffer,
                                         .drop_last = !options.fill_last,
                                         .fill_last = options.fill_last,
                                         .ordered = !options.unordered,
                                         .workers = options.workers,
                                         .prefetch = options.prefetch,
                                         .on_corrupt = on_corrupt,
                                         .augment = options.augment};
    opened.batches =
        open_pipeline(adapted(open_source(options.path, model, options), options), options.path, model, pipeline);
  }
  if (!options.evaluation_path.empty()) {
    const std::string& path = options.evaluation_path;
    opened.evaluation = open_pipeline(open_source(path, model, options), path, model,
                                      {.batch = model.batch(), .workers = 1, .on_corrupt = on_corrupt});
  }
  return opened;
}

void limit_data(RunData& data, const DataOptions& options, int64_t budget_bytes) {
  data.reserved_bytes = 0;
  for (const auto& batches : {data.batches, data.evaluation}) {
    if (!batches) continue;
    data::Pipeline& pipeline = batches->pipeline();
    const bool is_automatic = batches == data.batches && options.workers == 0;
    const int automatic = automatic_workers(pipeline, budget_bytes);
    if (is_automatic) pipeline.set_max_workers(automatic);
    const int workers = is_automatic ? automatic : batches == data.batches ? options.workers : 1;
    const int64_t bytes = pipeline_bytes_within(pipeline, budget_bytes);
    pipeline.set_max_bytes(bytes);
    data.reserved_bytes += bytes + kEachWorker * workers;
  }
}

}  // namespace plimsoll::train
