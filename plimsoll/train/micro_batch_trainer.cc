#include "plimsoll/train/micro_batch_trainer.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "plimsoll/base/error.h"
#include "plimsoll/program/ops/collective.h"
#include "plimsoll/train/synthetic.h"

namespace plimsoll::train {
namespace {

using program::Program;
using program::Value;

int64_t size_of(const run::Executor& executor, Value sample) {
  return executor.program()[sample].type.shape[0].constant();
}

run::Executor* find_executor(const MicroBatches& micro_batches, int64_t size) {
  for (run::Executor* executor : micro_batches.micro_batches) {
    if (size_of(*executor, micro_batches.samples.front()) == size) return executor;
  }
  throw ArgumentError(fmt::format("a micro-batch has {} samples, and no executor is bound to so many", size));
}

// What stays between the micro-batches of a step, and is zero between steps.
bool is_sum_of_gradients(const Program& program, Value value) { return program[value].category == Category::gradient; }

// Whether it keeps anything else from one micro-batch to the next.
bool changes_sums_alone(const Program& program) {
  for (const program::Op& op : program.ops) {
    for (const program::Overwrite& overwrite : op.def->overwrites) {
      const Value kept = op.inputs[static_cast<size_t>(overwrite.input)];
      const bool is_state = std::find(program.state.begin(), program.state.end(), kept) != program.state.end();
      if (is_state && !is_sum_of_gradients(program, kept)) return false;
    }
  }
  return true;
}

}  // namespace

MicroBatches micro_batches_of(run::Session& session, std::vector<int64_t> sizes, const program::SplitStep& split) {
  MicroBatches micro_batches{
      std::move(sizes), {}, &session.executor(session.executors() - 1), split.mean, split.samples};
  for (size_t i = 0; i + 1 < session.executors(); ++i) micro_batches.micro_batches.push_back(&session.executor(i));
  return micro_batches;
}

MicroBatchTrainer::MicroBatchTrainer(MicroBatches micro_batches, const TrainerOptions& options)
    : options_(options), micro_batches_(std::move(micro_batches)), steps_(options.steps_before) {
  if (micro_batches_.samples.empty()) throw ArgumentError("a program without samples cannot be taken in micro-batches");
  int64_t first = options_.part.first_sample;
  for (const int64_t size : micro_batches_.sizes) {
    order_.push_back({find_executor(micro_batches_, size), first, size});
    loss_of(order_.back().executor->program());
    first += size;
  }
  if (!options_.batch)
    options_.batch = std::make_shared<SyntheticBatch>(options.seed, micro_batches_.update->threads());
  may_give_up_ = !options_.part && std::all_of(order_.begin(), order_.end(), [](const MicroBatch& micro_batch) {
    return changes_sums_alone(micro_batch.executor->program());
  });
}

// The share of each micro-batch in the loss of the whole batch, that of all ranks.
std::vector<double> MicroBatchTrainer::weights(const Batch& batch) {
  if (micro_batches_.mean.is_sum) return std::vector<double>(order_.size(), 1.0);
  std::vector<double> shares;
  for (const MicroBatch& micro_batch : order_) {
    shares.push_back(count_of(*micro_batch.executor, micro_batches_.mean, batch, micro_batch.first));
  }
  double all = std::accumulate(shares.begin(), shares.end(), 0.0);
  if (options_.part) all = device::sum_over(*options_.part.ranks, all);
  for (double& share : shares) share = all > 0 ? share / all : 0;
  return shares;
}

float MicroBatchTrainer::run(const MicroBatch& micro_batch, float weight, const Batch& batch) {
  run::Executor& executor = *micro_batch.executor;
  const Program& program = executor.program();
  for (const Value input : micro_batches_.samples) {
    executor.fill_bytes(input, [&](std::span<std::byte> into) { batch.read(program, input, micro_batch.first, into); });
  }
  executor.write_one(program.find("micro_batch.weight"), weight);
  for (const Value seed : seeds_of(program)) {
    write_seed(executor, seed, static_cast<int64_t>(options_.seed) + steps_, micro_batch.first);
  }
  executor.step();
  return executor.read_one<float>(loss_of(program));
}

std::optional<NotFinite> MicroBatchTrainer::find_not_finite(const Batch& batch) {
  if (!not_finite_) return std::nullopt;
  const MicroBatch& micro_batch = order_[*not_finite_];
  return train::find_not_finite(*micro_batch.executor, micro_batches_.samples, batch, micro_batch.first);
}

// Inputs do not stay where the programs take turns.
void MicroBatchTrainer::update() {
  const Value rate = micro_batches_.update->program().find("optimizer.rate");
  micro_batches_.update->write_one(rate, static_cast<float>(options_.rate));
  micro_batches_.update->step();
}

void MicroBatchTrainer::give_up() {
  run::Executor& executor = *micro_batches_.update;
  for (const Value value : executor.program().state) {
    if (!is_sum_of_gradients(executor.program(), value)) continue;
    executor.fill_bytes(value, [](std::span<std::byte> bytes) { std::ranges::fill(bytes, std::byte{}); });
  }
  throw StepGivenUp(fmt::format("step {} was given up between micro-batches", steps_--));
}

// Before the first step, where ranks wait for each other in every micro-batch.
void MicroBatchTrainer::find_micro_batches_of_all() {
  if (micro_batches_of_all_ > 0) return;
  micro_batches_of_all_ = static_cast<int64_t>(order_.size());
  if (!options_.part || program::collectives(order_[0].executor->program()) == 0) return;
  micro_batches_of_all_ = device::most_over(*options_.part.ranks, micro_batches_of_all_);
}

// Ranks with fewer micro-batches add nothing to the last ones.
void MicroBatchTrainer::accompany(const Batch& batch) {
  for (auto i = static_cast<int64_t>(order_.size()); i < micro_batches_of_all_; ++i) run(order_[0], 0, batch);
}

float MicroBatchTrainer::step(const Batch& batch) {
  ++steps_;
  find_micro_batches_of_all();
  const std::vector<double> shares = weights(batch);
  double loss = 0;
  bool counts = false;
  not_finite_.reset();
  for (size_t i = 0; i < order_.size(); ++i) {
    if (i > 0 && may_give_up_ && gives_up && gives_up()) give_up();
    if (on_micro_batch) on_micro_batch(static_cast<int64_t>(i));
    if (shares[i] == 0) {  // its mean is over nothing: not a number
      if (program::collectives(order_[i].executor->program()) == 0) continue;
      throw ArgumentError(
          fmt::format("a micro-batch of step {} has no target that counts, and other ranks wait for it: "
                      "take --shard optimizer",
                      steps_));
    }
    const float mean = run(order_[i], static_cast<float>(shares[i]), batch);
    if (!std::isfinite(mean) && !not_finite_) not_finite_ = i;
    loss += shares[i] * static_cast<double>(mean);
    counts = true;
  }
  accompany(batch);
  update();
  if (options_.part) {
    loss = device::sum_over(*options_.part.ranks, loss);
    counts = device::most_over(*options_.part.ranks, counts ? 1 : 0) > 0;
  }
  return counts ? static_cast<float>(loss) : std::numeric_limits<float>::quiet_NaN();
}

}  // namespace plimsoll::train
