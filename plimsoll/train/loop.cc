#include "plimsoll/train/loop.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <filesystem>
#include <utility>

#include "plimsoll/base/bytes.h"
#include "plimsoll/base/error.h"
#include "plimsoll/memory/process.h"
#include "plimsoll/train/overhead.h"
#include "plimsoll/train/refuse.h"
#include "plimsoll/train/train_log.h"

namespace plimsoll::train {
namespace {

namespace fs = std::filesystem;

void check(const LoopOptions& options, bool has_data) {
  const auto require = [](bool holds, std::string_view what) {
    if (!holds) throw ArgumentError(std::string(what));
  };
  require(options.steps >= 0 && options.epochs >= 0, "steps and epochs must not be negative");
  require(options.steps > 0 || options.epochs > 0, "a run needs a number of steps or of epochs");
  require(has_data || options.epochs == 0, "epochs are of data: give some, or a number of steps");
  require(options.patience == 0 || options.evaluation, "patience is of evaluations: give data for them");
  require(options.evaluate_every == 0 || options.evaluation, "there is no data to evaluate on: give some");
  const CheckpointOptions& checkpoint = options.checkpoint;
  require(checkpoint.every == 0 || !checkpoint.folder.empty(), "checkpoints need a folder");
  require(!checkpoint.resume || !checkpoint.folder.empty(), "to resume, the folder of the checkpoints is needed");
}

}  // namespace

int64_t Loop::reserved_bytes(const ModelForms& model, const LoopOptions& options, int64_t budget_bytes) {
  int64_t bytes = 0;
  if (!options.checkpoint.folder.empty()) {
    const int64_t staging = options.checkpoint.staging_bytes;
    bytes += (staging > 0 ? staging : staging_bytes_for(model.kept_bytes(), budget_bytes)) + 2 * kLoadBytes;
  }
  if (options.evaluation) bytes += Evaluation::steps_of(model) * kStepBytes;
  return bytes;
}

Loop::Loop(FittedTraining& training, Budget budget, std::shared_ptr<Batches> batches, LoopOptions options)
    : training_(training), budget_(std::move(budget)), batches_(std::move(batches)), options_(std::move(options)) {
  check(options_, batches_ != nullptr);
  const CheckpointOptions& checkpoint = options_.checkpoint;
  if (checkpoint.folder.empty()) return;
  const auto before = newest();
  if (before && !checkpoint.resume) {
    throw ArgumentError(
        fmt::format("{} has checkpoints of a run, the newest {}: resume it (--resume), or give another folder",
                    quote(checkpoint.folder), fs::path(*before).filename().string()));
  }
  make_folder();
}

// Of several ranks each writes its part; where rank 0 alone sees the folder it writes all, if it has all.
void Loop::make_folder() {
  const CheckpointOptions& checkpoint = options_.checkpoint;
  const RankPart& part = training_.part();
  const int64_t staging = checkpoint.staging_bytes;
  const int64_t bytes = staging > 0 ? staging : staging_bytes_for(training_.model().kept_bytes(), budget_.bytes);
  const bool in_parts = part && is_shared_folder(checkpoint.folder, part);
  if (part && !in_parts) {
    const std::vector<KeptTensor> kept = training_.kept();
    if (std::any_of(kept.begin(), kept.end(), [](const KeptTensor& tensor) { return tensor.is_spread; })) {
      throw ArgumentError(
          fmt::format("{} is not one folder for all ranks, and each has a part of the state to write: name one "
                      "that all machines see, or leave --shard out",
                      quote(checkpoint.folder)));
    }
    if (!part.is_first()) return;
  }
  folder_ = std::make_unique<CheckpointFolder>(checkpoint.folder, checkpoint.keep, bytes, in_parts ? part : RankPart{});
}

// That of rank 0, for all.
std::optional<std::string> Loop::newest() const {
  const std::string& folder = options_.checkpoint.folder;
  const RankPart& part = training_.part();
  const auto own = newest_checkpoint(folder);
  if (!part) return own;
  const std::string name = device::broadcast_text(*part.ranks, own ? fs::path(*own).filename().string() : "");
  if (name.empty()) return std::nullopt;
  return (fs::path(folder) / name).string();
}

Loop::Loop(Training& training, std::shared_ptr<Batches> batches, LoopOptions options)
    : Loop(training.fitted(), {training.plan().budget_bytes, "budget"}, std::move(batches), std::move(options)) {}

Loop::~Loop() = default;

std::optional<int64_t> Loop::steps_in_all() const {
  if (options_.epochs == 0) return options_.steps;
  const int64_t by_epochs = checked_multiply(options_.epochs, batches_->batches_per_epoch()).value_or(INT64_MAX);
  return options_.steps == 0 ? by_epochs : std::min(options_.steps, by_epochs);
}

void Loop::resume() {
  const CheckpointOptions& asked = options_.checkpoint;
  const auto path = asked.resume ? newest() : std::nullopt;
  if (!path) return;
  if (!fs::exists(*path)) {
    throw InputError({.source = *path}, "not on this machine, and rank 0 goes on from it",
                     "a folder that all machines see, or a copy of it on each");
  }
  const Checkpoint checkpoint(*path);
  if (const auto no_fit = training_.load(checkpoint, budget_)) refuse(training_.model(), "", budget_, *no_fit);
  const RunState& state = checkpoint.state();
  if (batches_) batches_->seek(state.data);
  result_.best_loss = state.best_loss;
  evaluations_since_best_ = state.evaluations_since_best;
  counted_at_ = state.evaluated_at;
  saved_at_ = state.step;
  result_.checkpoint = checkpoint.path();
  if (options_.on_resume) options_.on_resume(state);
}

bool Loop::is_over() const {
  if (options_.steps > 0 && training_.steps() >= options_.steps) return true;
  return options_.epochs > 0 && epoch() >= options_.epochs;
}

Delivered Loop::take_batch() {
  batch_position_ = batches_->position();
  return batches_->next();
}

// At the end of an epoch the next one begins, where there is one to come.
Delivered Loop::next_batch() {
  Delivered delivered = take_batch();
  if (delivered.batch) return delivered;
  if (options_.evaluation && options_.evaluate_every == 0) evaluate();
  if (is_over() || result_.end == EndOfLoop::no_better) return {};
  delivered = take_batch();
  if (!delivered.batch) throw ArgumentError("an epoch of the data has no whole batch: take a smaller batch");
  return delivered;
}

// Where the step is given up, its batch is the next one of the run that goes on from here.
float Loop::run_step(const Delivered& delivered) try {
  return batches_ ? training_.step(*delivered.batch) : training_.step();
} catch (const StepGivenUp&) {
  if (batches_) batches_->seek(batch_position_);
  throw;
}

void Loop::step() {
  Delivered delivered;
  if (batches_) {
    delivered = next_batch();
    if (!delivered.batch) return;
  }
  const int64_t number = training_.steps() + 1;
  LoopOptions::Step record{.step = number, .epoch = epoch(), .rate = options_.schedule.rate_of(number)};
  training_.set_rate(record.rate);
  const auto start = std::chrono::steady_clock::now();
  record.loss = run_step(delivered);
  record.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  record.samples = batches_ ? delivered.samples : training_.model().batch();
  record.steps_in_all = steps_in_all();
  result_.last_loss = record.loss;
  ++result_.steps_here;
  if (log_) log_->step(record, process_peak_bytes());
  if (options_.on_step) options_.on_step(record);
  if (!std::isfinite(record.loss)) tell_not_finite(record, delivered.batch.get());
}

// Later ones follow from the first.
void Loop::tell_not_finite(const LoopOptions::Step& record, const Batch* batch) {
  if (told_not_finite_ || !options_.on_not_finite) return;
  told_not_finite_ = true;
  options_.on_not_finite(record, training_.find_not_finite(batch));
}

// Once a step: a run that goes on from its last evaluation evaluates again.
void Loop::count(double loss) {
  if (std::exchange(counted_at_, training_.steps()) == training_.steps()) return;
  const bool is_better = std::isfinite(loss) && (!result_.best_loss || loss < *result_.best_loss);
  evaluations_since_best_ = is_better ? 0 : evaluations_since_best_ + 1;
  if (is_better) result_.best_loss = loss;
}

void Loop::evaluate() {
  if (evaluated_at_ == training_.steps()) return;
  const Metrics metrics = Evaluation(training_.model(), *training_.fitted().session).run(*options_.evaluation);
  evaluated_at_ = training_.steps();
  result_.metrics = metrics;
  count(metrics.loss);
  if (options_.patience > 0 && evaluations_since_best_ >= options_.patience) result_.end = EndOfLoop::no_better;
  if (log_) log_->evaluation(training_.steps(), metrics);
  if (options_.on_evaluation) options_.on_evaluation(training_.steps(), metrics);
}

void Loop::save() {
  if (options_.checkpoint.folder.empty() || saved_at_ == training_.steps()) return;
  saved_at_ = training_.steps();
  if (!std::isfinite(result_.last_loss)) return refuse_to_save();
  if (!folder_) return;  // rank 0 has what there is to save
  RunState state = training_.state();
  if (batches_) state.data = batches_->position();
  state.best_loss = result_.best_loss;
  state.evaluations_since_best = evaluations_since_best_;
  state.evaluated_at = counted_at_;
  folder_->save(training_.kept(), state);
}

void Loop::save_now() {
  save();
  if (folder_) folder_->wait();
  tell_outcomes();
}

// Earlier checkpoints, which would make room for it, are worth more.
void Loop::refuse_to_save() {
  if (!folder_) return;
  tell({.step = training_.steps(), .path = {}, .error = fmt::format("its loss is {}", result_.last_loss)});
}

void Loop::tell(const CheckpointFolder::Outcome& outcome) {
  if (outcome.error.empty()) {
    result_.checkpoint = outcome.path;
  } else {
    ++result_.failed_checkpoints;
  }
  if (log_) log_->checkpoint(outcome);
  if (options_.on_checkpoint) options_.on_checkpoint(outcome);
}

void Loop::tell_outcomes() {
  if (!folder_) return;
  folder_->poll();
  for (const CheckpointFolder::Outcome& outcome : folder_->outcomes()) tell(outcome);
}

LoopResult Loop::run() {
  result_ = {};
  resume();
  if (!options_.log.empty()) log_ = std::make_unique<TrainLog>(options_.log, training_.steps());
  training_.set_gives_up(options_.stops);
  const auto is_every = [&](int64_t every) { return every > 0 && training_.steps() % every == 0; };
  while (!is_over() && result_.end == EndOfLoop::done) {
    const int64_t before = training_.steps();
    try {
      step();
    } catch (const StepGivenUp&) {
      result_.end = EndOfLoop::stopped;
    }
    if (training_.steps() == before) break;  // given up, or the data came to its end
    if (is_every(options_.evaluate_every)) evaluate();
    if (is_every(options_.checkpoint.every)) save();
    tell_outcomes();
    if (options_.stops && options_.stops()) result_.end = EndOfLoop::stopped;
    if (options_.between_steps && !is_over() && result_.end == EndOfLoop::done) {
      options_.between_steps([this] { save_now(); });
    }
  }
  training_.set_gives_up({});
  if (options_.evaluation && result_.end != EndOfLoop::stopped) evaluate();
  save_now();
  if (log_) result_.log_error = log_->error();
  result_.steps = training_.steps();
  return result_;
}

}  // namespace plimsoll::train
