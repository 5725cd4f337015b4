#include "plimsoll/models/step.h"

#include <fmt/format.h>

#include <set>

#include "plimsoll/base/error.h"
#include "plimsoll/program/op.h"
#include "plimsoll/program/passes/optimize.h"
#include "plimsoll/program/passes/sink_ops.h"

namespace plimsoll::models {
namespace {

void check_precision(const StepOptions& options) {
  const bool is_i8 = options.precision == DType::i8;
  if (is_floating(options.precision) || (is_i8 && !options.training)) return;
  if (is_i8) {
    throw ArgumentError(
        "the precision is i8, which is for inference alone; train in f32, bf16 or f16, and infer in i8 afterwards");
  }
  throw ArgumentError(
      fmt::format("the precision is {}, expected f64, f32, f16 or bf16, or i8 for inference", name(options.precision)));
}

Model build(const ModelInfo& model, const StepOptions& options) {
  check_precision(options);
  const DType dtype = options.precision == DType::i8 ? DType::f32 : options.precision;
  return model.build({.dtype = dtype, .training = options.training}, options.size);
}

// Gradients of f16 need it.
program::TrainOptions train_options(const StepOptions& options) {
  program::TrainOptions train = options.train;
  train.scale_loss = train.scale_loss || options.precision == DType::f16;
  train.overlap = train.overlap && !options.form.waits;
  return train;
}

void quantize(Step& step) {
  program::QuantizedProgram quantized = program::quantize_weights(std::move(step.program));
  step.program = std::move(quantized.program);
  step.quantized = std::move(quantized.parameters);
}

// A model that was loaded for one size has no symbol for it.
program::Program bind_known(const program::Program& program, const program::Bindings& sizes) {
  const std::set<std::string> symbols = program::symbols(program);
  program::Bindings known;
  for (const auto& [symbol, size] : sizes) {
    if (symbols.contains(symbol)) known[symbol] = size;
  }
  return program::bind(program, known);
}

program::Bindings without_batch(program::Bindings sizes) {
  sizes.erase("batch");
  return sizes;
}

Step build_chunked_step(const ModelInfo& model, const StepOptions& options) {
  const program::Bindings sizes = bindings(model, options.sizes);
  Model built = build(model, options);
  program::ChunkedModel chunked = program::chunk_batch(bind_known(built.program, without_batch(sizes)), built.loss,
                                                       options.form, sizes.at("batch"));
  return {program::training_step(std::move(chunked.program), chunked.loss, train_options(options)),
          std::move(built.inits), std::move(built.state_inits)};
}

// Each rank takes some samples: what mixes them would see only those.
void require_divisible(const Model& built, const StepOptions& options) {
  if (!options.training || options.train.ranks == 1) return;
  if (const auto why = program::why_no_micro_batches(built.program, built.loss, options.through_batch_norm)) {
    throw UnsupportedError(fmt::format("the batch cannot be divided over ranks: {}", *why));
  }
}

Step build_as_written(const ModelInfo& model, const StepOptions& options) {
  const program::Bindings sizes = bindings(model, options.sizes);
  Model built = build(model, options);
  require_divisible(built, options);
  Step step{{}, std::move(built.inits), std::move(built.state_inits), {}};
  step.program =
      options.training
          ? bind_known(program::training_step(std::move(built.program), built.loss, train_options(options)), sizes)
          : bind_known(built.program, sizes);
  if (options.precision == DType::i8) {
    quantize(step);
  } else if (!options.training) {
    step.program = program::optimize(std::move(step.program));
  }
  return step;
}

}  // namespace

program::ChunkPlaces find_chunk_places(const ModelInfo& model, const StepOptions& options) {
  const Model built = build(model, options);
  return program::find_chunk_places(bind_known(built.program, without_batch(bindings(model, options.sizes))),
                                    built.loss);
}

Step build_whole_step(const ModelInfo& model, const StepOptions& options) {
  Step step = options.form.chunks > 1 ? build_chunked_step(model, options) : build_as_written(model, options);
  if (options.form.sink_ops) step.program = program::sink_ops(std::move(step.program));
  return step;
}

MicroBatchStep build_micro_batch_step(const ModelInfo& model, const StepOptions& options) {
  const program::Bindings sizes = without_batch(bindings(model, options.sizes));
  Model built = build(model, options);
  const program::SplitOptions split_options{train_options(options), options.through_batch_norm};
  MicroBatchStep step{program::split_training_step(std::move(built.program), built.loss, split_options),
                      std::move(built.inits), std::move(built.state_inits)};
  step.split.micro_batch = bind_known(step.split.micro_batch, sizes);
  return step;
}

program::Program build_step(const ModelInfo& model, const StepOptions& options) {
  return build_whole_step(model, options).program;
}

int64_t forward_flops(const ModelInfo& model) {
  const program::Program program = build_step(model, {.training = false, .sizes = {{"batch", 1}}});
  int64_t sum = 0;
  for (const program::Op& op : program.ops) sum += program::flops(program, op).constant();
  return sum;
}

}  // namespace plimsoll::models
