#include "plimsoll/models/step.h"

#include <fmt/format.h>

#include "plimsoll/base/error.h"
#include "plimsoll/program/op.h"

namespace plimsoll::models {

program::Program build_step(const ModelInfo& model, const StepOptions& options) {
  if (!is_floating(options.precision)) {
    throw ArgumentError(fmt::format("the precision is {}, expected f64, f32, f16 or bf16", name(options.precision)));
  }
  const program::Bindings sizes = bindings(model, options.sizes);
  Model built = model.build({.dtype = options.precision, .training = options.training}, options.size);
  if (!options.training) return program::bind(built.program, sizes);
  return program::bind(program::training_step(std::move(built.program), built.loss, options.train), sizes);
}

int64_t forward_flops(const ModelInfo& model) {
  const program::Program program = build_step(model, {.training = false, .sizes = {{"batch", 1}}});
  int64_t sum = 0;
  for (const program::Op& op : program.ops) sum += program::flops(program, op).constant();
  return sum;
}

}  // namespace plimsoll::models
