#include "plimsoll/train/parts_trainer.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <numeric>

#include "plimsoll/base/error.h"
#include "plimsoll/train/synthetic.h"

namespace plimsoll::train {
namespace {

using program::Program;
using program::Value;

int64_t size_of(const run::Executor& executor, Value sample) {
  return executor.program()[sample].type.shape[0].constant();
}

run::Executor* find_executor(const Parts& parts, int64_t size) {
  for (run::Executor* executor : parts.parts) {
    if (size_of(*executor, parts.samples.front()) == size) return executor;
  }
  throw ArgumentError(fmt::format("a part has {} samples, and no executor is bound to so many", size));
}

}  // namespace

Parts parts_of(run::Session& session, std::vector<int64_t> sizes, const program::SplitStep& split) {
  Parts parts{std::move(sizes), {}, &session.executor(session.executors() - 1), split.mean, split.samples};
  for (size_t i = 0; i + 1 < session.executors(); ++i) parts.parts.push_back(&session.executor(i));
  return parts;
}

PartsTrainer::PartsTrainer(Parts parts, const TrainerOptions& options)
    : options_(options), parts_(std::move(parts)), steps_(options.steps_before) {
  if (parts_.samples.empty()) throw ArgumentError("a program without samples cannot be taken in parts");
  int64_t first = 0;
  for (const int64_t size : parts_.sizes) {
    order_.push_back({find_executor(parts_, size), first, size});
    loss_of(order_.back().executor->program());
    first += size;
  }
  if (!options_.batch) options_.batch = std::make_shared<SyntheticBatch>(options.seed, parts_.update->threads());
}

// What the part's loss is a mean over.
double PartsTrainer::counted(const Part& part, const Batch& batch) {
  const program::LossMean& mean = parts_.mean;
  if (!mean.ignored) {
    return static_cast<double>(part.executor->program()[mean.counted].type.shape.elements().constant());
  }
  double count = 0;
  part.executor->fill<int64_t>(mean.counted, [&](std::span<int64_t> targets) {
    batch.read(part.executor->program(), mean.counted, part.first, std::as_writable_bytes(targets));
    count = static_cast<double>(targets.size()) -
            static_cast<double>(std::count(targets.begin(), targets.end(), *mean.ignored));
  });
  return count;
}

// The share of each part in the loss of the whole batch.
std::vector<double> PartsTrainer::weights(const Batch& batch) {
  if (parts_.mean.is_sum) return std::vector<double>(order_.size(), 1.0);
  std::vector<double> shares;
  for (const Part& part : order_) shares.push_back(counted(part, batch));
  const double all = std::accumulate(shares.begin(), shares.end(), 0.0);
  for (double& share : shares) share = all > 0 ? share / all : 0;
  return shares;
}

float PartsTrainer::run(const Part& part, float weight, const Batch& batch) {
  run::Executor& executor = *part.executor;
  const Program& program = executor.program();
  for (const Value input : parts_.samples) {
    executor.fill_bytes(input, [&](std::span<std::byte> into) { batch.read(program, input, part.first, into); });
  }
  executor.write_one(program.find("part.weight"), weight);
  for (const Value seed : seeds_of(program)) {
    write_seed(executor, seed, static_cast<int64_t>(options_.seed) + steps_, part.first);
  }
  executor.step();
  return executor.read_one<float>(loss_of(program));
}

// Inputs do not stay where the programs take turns.
void PartsTrainer::update() {
  const Value rate = parts_.update->program().find("optimizer.rate");
  parts_.update->write_one(rate, static_cast<float>(options_.rate));
  parts_.update->step();
}

float PartsTrainer::step(const Batch& batch) {
  ++steps_;
  const std::vector<double> shares = weights(batch);
  double loss = 0;
  bool counts = false;
  for (size_t i = 0; i < order_.size(); ++i) {
    if (on_part) on_part(static_cast<int64_t>(i));
    if (shares[i] == 0) continue;  // its mean is over nothing: not a number
    loss += shares[i] * static_cast<double>(run(order_[i], static_cast<float>(shares[i]), batch));
    counts = true;
  }
  update();
  return counts ? static_cast<float>(loss) : std::numeric_limits<float>::quiet_NaN();
}

}  // namespace plimsoll::train
