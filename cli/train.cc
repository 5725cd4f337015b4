#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <filesystem>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>

#include "cli/console.h"
#include "cli/train_options.h"
#include "cli/verbs.h"
#include "plimsoll/base/duration.h"
#include "plimsoll/base/error.h"
#include "plimsoll/memory/process.h"
#include "plimsoll/report/plan_text.h"
#include "plimsoll/report/run_text.h"
#include "plimsoll/train/process_ranks.h"
#include "plimsoll/train/trainer.h"

namespace plimsoll::cli {
namespace {

constexpr double kMostRate = 1e30;  // as a float it is finite

// In the memory that the step takes as it is.
void run_steps(train::Trainer& trainer, int64_t steps, TrainedSteps& done, const std::function<void()>& after) {
  while (trainer.steps() < steps) {
    show_progress(
        fmt::format("step {} of {}{}", trainer.steps() + 1, steps, report::time_left(done, steps - trainer.steps())));
    const auto start = std::chrono::steady_clock::now();
    const float loss = trainer.step();
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
    done.push_back({loss, took.count()});
    after();
    tell("step {:>{}}  loss {:.6f}  {}\n", trainer.steps(), std::to_string(steps).size(), loss,
         format_seconds(took.count()));
  }
}

void write_unplanned_files(const TrainOptions& options, const train::StartedSession& started,
                           const TrainedSteps& steps) {
  if (!options.page.wants_any()) return;
  const train::ModelForms model(request_of(options.step, {}));
  run::Executor& executor = started.session->executor();
  report::TrainedRun run{{{"step", executor.program(), executor.memory(), executor.op_seconds()}}};
  run.steps = steps;
  run.predicted_peak_bytes = started.predicted_peak_bytes;
  run.process_peak_bytes = process_peak_bytes();
  write_train_files(options, {.title = report::setting_text(model.setting()), .request = model.request()},
                    std::move(run));
}

void write_unplanned_profile(const TrainOptions& options, const train::StartedSession& started,
                             const TrainedSteps& steps, const report::OpTimes& times) {
  if (options.profile.empty()) return;
  report::Profile profile = report::profile_of(options.step.model, *started.session, times);
  for (const report::TrainedStep& step : steps) profile.steps.push_back({.seconds = step.seconds});
  profile.predicted_peak_bytes = started.predicted_peak_bytes;
  profile.measured_peak_bytes = started.session->executor().arena_bytes();
  write_profile(options, profile);
}

void run_unplanned(const TrainOptions& options) {
  const train::StartedSession started = start_session(options.step, options.trainer.seed);
  time_ops(options, *started.session);
  train::Trainer trainer(started.session->executor(), options.trainer);
  TrainedSteps steps;
  report::OpTimes times;
  run_steps(trainer, options.steps.value_or(kUsualSteps), steps, [&] { times.add(*started.session); });
  write_unplanned_files(options, started, steps);
  save_weights(options, started.session->executor());
  if (options.step.json) {
    write_unplanned_profile(options, started, steps, times);
    nlohmann::ordered_json json = head_json(options, started.sizes, started.threads);
    json["predicted_peak_bytes"] = started.predicted_peak_bytes;
    json["arena_bytes"] = started.session->executor().arena_bytes();
    return print_train_json(std::move(json), steps, process_peak_bytes());
  }
  print_head(options, started.threads, steps);
  print("{}", report::peaks_text(peaks_of(started)));
  write_unplanned_profile(options, started, steps, times);
}

// Options that only say how to fit would else do nothing, in silence.
void require_budget_for(const BudgetOptions& options) {
  const auto refuse = [](bool given, std::string_view name) {
    if (given) throw ArgumentError(fmt::format("{} says how to fit a budget: give one with --budget", name));
  };
  if (!options.budget.empty()) return;
  refuse(!options.budget_file.empty(), "--budget-file");
  refuse(!options.spill_dir.empty(), "--spill-dir");
  refuse(!options.form.allow.empty(), "--allow");
  refuse(!options.form.measure, "--no-measure");
  refuse(!options.form.micro_batches, "--no-grad-accumulation");
  refuse(!options.form.recompute, "--no-recompute");
  refuse(options.strict, "--strict");
}

// Of an option that says something of what another one asks for.
void require_other(bool given, std::string_view name, bool has_other, std::string_view other) {
  if (given && !has_other) throw ArgumentError(fmt::format("{} is of {}: give that, too", name, other));
}

void check_data(const train::DataOptions& data) {
  const auto of_data = [&](bool given, std::string_view name) {
    require_other(given, name, !data.path.empty(), "--data");
  };
  of_data(!data.evaluation_path.empty(), "--eval-data");
  of_data(data.take > 0, "--take");
  of_data(!data.shuffle, "--no-shuffle");
  of_data(data.shuffle_buffer != 0, "--shuffle-buffer");
  of_data(data.augment.crop_padding != 0, "--crop");
  of_data(data.augment.flip, "--flip");
  of_data(!data.mean.empty(), "--mean");
  of_data(!data.std.empty(), "--std");
  of_data(data.cache_bytes > 0 || !data.cache_folder.empty(), "--cache");
  of_data(data.fill_last, "--fill-last");
  of_data(data.unordered, "--unordered");
  of_data(data.skip_corrupt, "--skip-corrupt");
  of_data(data.workers != 0, "--workers");
  of_data(data.prefetch != 0, "--prefetch");
  if (data.shuffle_buffer != 0 && !data.shuffle) {
    throw ArgumentError("--shuffle-buffer shuffles, and --no-shuffle does not: leave one of them out");
  }
}

void check_loop(const TrainOptions& options) {
  const train::LoopOptions& loop = options.loop;
  const bool evaluates = !options.data.evaluation_path.empty();
  require_other(loop.evaluate_every != 0, "--eval-every", evaluates, "--eval-data");
  require_other(loop.patience != 0, "--patience", evaluates, "--eval-data");
  const bool has_checkpoints = !loop.checkpoint.folder.empty();
  require_other(loop.checkpoint.every != 0, "--every", has_checkpoints, "--checkpoint");
  require_other(loop.checkpoint.keep != train::CheckpointOptions{}.keep, "--keep", has_checkpoints, "--checkpoint");
  require_other(loop.checkpoint.resume, "--resume", has_checkpoints, "--checkpoint");
  const bool drops = options.schedule == "step";
  require_other(loop.schedule.every != 0, "--drop-every", drops, "--schedule step");
  require_other(drops, "--schedule step", loop.schedule.every != 0, "--drop-every");
}

void check(const TrainOptions& options) {
  if (options.steps.value_or(1) < 1)
    throw ArgumentError(fmt::format("--steps is {}, expected at least 1", *options.steps));
  if (options.epochs.value_or(1) < 1) {
    throw ArgumentError(fmt::format("--epochs is {}, expected at least 1", *options.epochs));
  }
  if (options.accumulate < 1) {
    throw ArgumentError(fmt::format("--accumulate is {}, expected at least 1", options.accumulate));
  }
  check_data(options.data);
  check_loop(options);
}

// Before the first step rather than after the last one.
void require_room_for(const TrainOptions& options) {
  for (const std::string* path : {&options.save, &options.profile, &options.page.html, &options.page.chrome_trace}) {
    if (path->empty() || std::filesystem::exists(*path)) continue;
    const std::filesystem::path folder = std::filesystem::absolute(*path).parent_path();
    if (access(folder.c_str(), W_OK | X_OK) == 0) continue;
    throw SystemError::from_errno(
        fmt::format("{} cannot be written: the folder {}", quote(*path), quote(folder.string())), errno);
  }
}

void run(const TrainOptions& options, int& status) {
  check(options);
  require_page(options.page);
  const auto ranks = train::join_ranks();
  if (ranks) set_rank_of_console(ranks->rank());
  if (!ranks && options.shard != "none")
    throw ArgumentError("--shard is for several ranks: start them with mpirun -n 4");
  if (!ranks && options.bucket != train::kUsualBucketText)
    throw ArgumentError("--bucket is for several ranks: start them with mpirun -n 4");
  if (!ranks || ranks->rank() == 0) require_room_for(options);
  if (options.budget.budget.empty() && !options.needs_loop()) {
    require_budget_for(options.budget);
    if (!ranks) return run_unplanned(options);
  }
  TrainOptions asked = options;
  if (asked.budget.budget.empty()) asked.budget.budget = "auto";
  status = train_within(asked);
}

}  // namespace

void add_train(const Command& app, int& status) {
  const Command verb = app.add_verb("train", "Train a model within a budget");
  verb.footer(
      "Examples: plimsoll train mlp --steps 20 --batch 64\n"
      "          plimsoll train p11 --batch 256 --budget 2GiB --steps 2\n"
      "          plimsoll train lenet --data digits/train --eval-data digits/test\n"
      "                   --epochs 3 --budget 64MiB\n"
      "          plimsoll train gpt2-nano --steps 500 --schedule cosine --warmup 50\n"
      "                   --checkpoint run --every 100 --resume\n"
      "          mpirun -n 4 plimsoll train gpt2-nano --batch 32 --shard optimizer");
  const auto options = std::make_shared<TrainOptions>();
  add_model_options(verb, options->step);
  add_device_option(verb, options->step);
  add_optimizer_option(verb, options->step);
  verb.add_option("--precision", options->step.precision, "fp32 bf16 fp16, and tf32 on cards").shows_default();
  verb.add_option("--budget", options->budget.budget, "Bytes that the whole process may take: 2GiB, auto");
  verb.add_option("--budget-file", options->budget.budget_file,
                  "A file with a size in it, read between steps: where that changes, the step is planned again");
  add_allow_option(verb, options->budget.form.allow);
  verb.add_option("--spill-dir", options->budget.spill_dir, "Folder on a disk for what does not fit in memory");
  verb.add_off_flag("--no-grad-accumulation", options->budget.form.micro_batches,
                    "Do not split the batch into micro-batches");
  verb.add_off_flag("--no-recompute", options->budget.form.recompute, "Do not recompute activations");
  verb.add_off_flag("--no-measure", options->budget.form.measure, "Do not time kernels before the step is planned");
  verb.add_flag("--strict", options->budget.strict, "Refuse a budget above what the machine has");
  add_page_options(verb, options->page);
  verb.add_option("--steps", options->steps, "Steps to run; 10 without --epochs");
  verb.add_option("--lr,--rate", options->trainer.rate, "Learning rate").shows_default().in_range(0, kMostRate);
  verb.add_option("--seed", options->trainer.seed, "Of parameters, data and dropout").shows_default();
  add_shard_options(verb, options->shard, options->bucket);
  add_loop_options(verb, *options);
  verb.add_option("--profile", options->profile,
                  "Write time and bytes by op, module and category, predicted and measured: a Chrome trace");
  verb.add_option("--save", options->save, "Write the weights at the end: a .safetensors file");
  verb.callback([options, &status] { run(*options, status); });
}

}  // namespace plimsoll::cli
