#include "plimsoll/train/trainer.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "plimsoll/base/error.h"
#include "plimsoll/program/op.h"
#include "plimsoll/program/split_step.h"
#include "plimsoll/train/synthetic.h"

namespace plimsoll::train {

using program::Program;
using program::Value;

Value loss_of(const Program& program) {
  const program::Type scalar{DType::f32, {}};
  if (!program.outputs.empty() && program[program.outputs[0]].type == scalar) return program.outputs[0];
  throw ArgumentError("the first output of the program must be its loss, f32[]");
}

std::vector<Value> seeds_of(const Program& program) {
  std::vector<Value> seeds;
  for (const program::Op& op : program.ops) {
    for (size_t i = 0; i < op.inputs.size(); ++i) {
      if (op.def->input_name(static_cast<int>(i)) != "seed") continue;
      if (std::find(seeds.begin(), seeds.end(), op.inputs[i]) == seeds.end()) seeds.push_back(op.inputs[i]);
    }
  }
  return seeds;
}

void write_seed(run::Executor& executor, Value seed, int64_t number, int64_t first_sample) {
  if (executor.program()[seed].type.shape.empty()) return executor.write_one(seed, number);
  const int64_t pair[] = {number, first_sample};
  executor.write<int64_t>(seed, pair);
}

Trainer::Trainer(run::Executor& executor, const TrainerOptions& options)
    : executor_(executor),
      options_(options),
      loss_(loss_of(executor.program())),
      seeds_(seeds_of(executor.program())),
      steps_(options.steps_before) {
  if (!options_.batch) options_.batch = std::make_shared<SyntheticBatch>(options.seed, executor.threads());
}

double count_of(run::Executor& executor, const program::LossMean& mean, const Batch& batch, int64_t first_sample) {
  if (!mean.ignored) {
    return static_cast<double>(executor.program()[mean.counted].type.shape.elements().constant());
  }
  double count = 0;
  executor.fill<int64_t>(mean.counted, [&](std::span<int64_t> targets) {
    batch.read(executor.program(), mean.counted, first_sample, std::as_writable_bytes(targets));
    count = static_cast<double>(targets.size()) -
            static_cast<double>(std::count(targets.begin(), targets.end(), *mean.ignored));
  });
  return count;
}

// The share of this rank in the loss of the whole batch.
double Trainer::weight_of(const Batch& batch) {
  const program::LossMean mean = program::mean_of_loss(executor_.program(), loss_);
  if (mean.is_sum) return 1;
  const double here = count_of(executor_, mean, batch, options_.part.first_sample);
  const double all = device::sum_over(*options_.part.ranks, here);
  if (here > 0) return here / all;
  throw ArgumentError(fmt::format("rank {} has no target in step {} that counts: take a larger batch, or fewer ranks",
                                  options_.part.ranks->rank(), steps_ + 1));
}

// Those that the batch has.
std::vector<Value> Trainer::sample_inputs() const {
  const Program& program = executor_.program();
  std::vector<Value> inputs;
  for (const Value input : program.inputs) {
    const bool is_seed = std::find(seeds_.begin(), seeds_.end(), input) != seeds_.end();
    if (!is_seed && !program[input].type.shape.empty()) inputs.push_back(input);
  }
  return inputs;
}

std::optional<NotFinite> Trainer::find_not_finite(const Batch& batch) {
  if (std::isfinite(own_loss_)) return std::nullopt;
  return train::find_not_finite(executor_, sample_inputs(), batch, options_.part.first_sample);
}

void Trainer::read(const Batch& batch) {
  const Program& program = executor_.program();
  for (const Value input : sample_inputs()) {
    executor_.fill_bytes(
        input, [&](std::span<std::byte> into) { batch.read(program, input, options_.part.first_sample, into); });
  }
  if (options_.part) weight_ = weight_of(batch);
}

float Trainer::run() {
  ++steps_;
  if (const Value rate = executor_.program().find("optimizer.rate")) {
    executor_.write_one(rate, static_cast<float>(options_.rate));
  }
  for (const Value seed : seeds_) {
    write_seed(executor_, seed, static_cast<int64_t>(options_.seed) + steps_, options_.part.first_sample);
  }
  if (options_.part) executor_.write_one(executor_.program().find("rank.weight"), static_cast<float>(weight_));
  executor_.step();
  own_loss_ = executor_.read_one<float>(loss_);
  if (!options_.part) return own_loss_;
  return static_cast<float>(device::sum_over(*options_.part.ranks, weight_ * static_cast<double>(own_loss_)));
}

float Trainer::step(const Batch& batch) {
  holds_own_ = false;
  read(batch);
  return run();
}

float Trainer::step() {
  if (!holds_own_) read(*options_.batch);
  holds_own_ = true;
  return run();
}

}  // namespace plimsoll::train
