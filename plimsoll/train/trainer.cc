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

Trainer::Trainer(run::Executor& executor, const TrainerOptions& options)
    : executor_(executor),
      options_(options),
      loss_(loss_of(executor.program())),
      seeds_(seeds_of(executor.program())),
      steps_(options.steps_before) {
  const Program& program = executor.program();
  if (!options_.data) options_.data = std::make_shared<SyntheticData>(options.seed, executor.threads());
  for (const Value input : program.inputs) {
    if (!program[input].type.shape.empty()) options_.data->read(program, input, 0, executor.bytes(input));
  }
  if (const Value rate = program.find("optimizer.rate")) {
    executor.data<float>(rate)[0] = static_cast<float>(options.rate);
  }
}

float Trainer::step() {
  ++steps_;
  for (const Value seed : seeds_) executor_.data<int64_t>(seed)[0] = static_cast<int64_t>(options_.seed) + steps_;
  executor_.step();
  return executor_.data<float>(loss_)[0];
}

}  // namespace plimsoll::train
