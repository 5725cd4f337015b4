#include "plimsoll/train/trainer.h"

#include <algorithm>

#include "plimsoll/base/error.h"
#include "plimsoll/program/op.h"
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

void Trainer::read(const Batch& batch) {
  const Program& program = executor_.program();
  for (const Value input : program.inputs) {
    const bool is_seed = std::find(seeds_.begin(), seeds_.end(), input) != seeds_.end();
    if (is_seed || program[input].type.shape.empty()) continue;
    executor_.fill_bytes(input, [&](std::span<std::byte> into) { batch.read(program, input, 0, into); });
  }
}

float Trainer::run() {
  ++steps_;
  if (const Value rate = executor_.program().find("optimizer.rate")) {
    executor_.write_one(rate, static_cast<float>(options_.rate));
  }
  for (const Value seed : seeds_) {
    write_seed(executor_, seed, static_cast<int64_t>(options_.seed) + steps_, 0);
  }
  executor_.step();
  return executor_.read_one<float>(loss_);
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
