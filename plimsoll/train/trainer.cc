#include "plimsoll/train/trainer.h"

#include <fmt/format.h>

#include "plimsoll/base/error.h"
#include "plimsoll/train/synthetic.h"

namespace plimsoll::train {
namespace {

using program::Program;
using program::Value;

Value loss_of(const Program& program) {
  const program::Type scalar{DType::f32, {}};
  if (!program.outputs.empty() && program[program.outputs[0]].type == scalar) return program.outputs[0];
  throw ArgumentError("the first output of the program must be its loss, f32[]");
}

}  // namespace

Trainer::Trainer(run::Executor& executor, const TrainerOptions& options)
    : executor_(executor), options_(options), loss_(loss_of(executor.program())) {
  const Program& program = executor.program();
  fill_inputs(executor, options.seed);
  if (const Value rate = program.find("optimizer.rate")) {
    executor.data<float>(rate)[0] = static_cast<float>(options.rate);
  }
  dropout_seed_ = program.find("seed");
}

float Trainer::step() {
  ++steps_;
  if (dropout_seed_) executor_.data<int64_t>(dropout_seed_)[0] = static_cast<int64_t>(options_.seed) + steps_;
  executor_.step();
  return executor_.data<float>(loss_)[0];
}

}  // namespace plimsoll::train
