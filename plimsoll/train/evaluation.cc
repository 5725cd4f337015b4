#include "plimsoll/train/evaluation.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <set>

#include "plimsoll/base/bytes.h"
#include "plimsoll/base/error.h"
#include "plimsoll/program/builder.h"
#include "plimsoll/program/op.h"

namespace plimsoll::train {
namespace {

using program::Program;
using program::Value;

program::Bindings sizes_of(const ModelForms& model) {
  program::Bindings sizes = model.sizes();
  sizes.erase("batch");
  return sizes;
}

Program bind_known(const Program& program, const program::Bindings& sizes) {
  const std::set<std::string> symbols = program::symbols(program);
  program::Bindings known;
  for (const auto& [symbol, size] : sizes) {
    if (symbols.contains(symbol)) known[symbol] = size;
  }
  return program::bind(program, known);
}

models::Model build(const ModelForms& model, bool training) {
  const StepRequest& request = model.request();
  return request.model.build({.dtype = DType::f32, .training = training}, request.step.size);
}

const program::Op& op_of(const Program& program, Value value) {
  for (const program::Op& op : program.ops) {
    if (std::find(op.outputs.begin(), op.outputs.end(), value) != op.outputs.end()) return op;
  }
  throw UnsupportedError("the model cannot be evaluated: no op makes its loss");
}

Program input_alone(const std::string& name, const program::Type& type) {
  program::Builder b;
  b.output(b.input(name, type));
  return std::move(b).finish();
}

// Where what programs of the session keep ends: from there on nothing stays from program to program.
int64_t kept_end(run::Session& session) {
  int64_t end = 0;
  for (size_t i = 0; i < session.executors(); ++i) {
    const plan::MemoryPlan& memory = session.executor(i).memory();
    for (size_t k = 0; k < memory.liveness.buffers.size(); ++k) {
      const plan::Buffer& buffer = memory.liveness.buffers[k];
      if (buffer.persistent) end = std::max(end, memory.placement.offsets[k] + buffer.bytes);
    }
  }
  return end;
}

// Moves a plan of its own to where the session leaves room: what is kept lies where the session has it, the rest
// behind all that the session keeps.
void move_into(run::Session& session, int64_t alignment, const Program& program, plan::MemoryPlan& memory) {
  run::Executor& training = session.executor();
  std::vector<int64_t>& offsets = memory.placement.offsets;
  int64_t own_end = 0;
  for (size_t i = 0; i < offsets.size(); ++i) {
    const plan::Buffer& buffer = memory.liveness.buffers[i];
    if (buffer.persistent) own_end = std::max(own_end, offsets[i] + align_up(buffer.bytes, alignment));
  }
  int64_t end = align_up(kept_end(session), alignment);
  for (const Value input : program.inputs) {
    const plan::Storage& storage = memory.storage_of(program[input].storage);
    offsets[static_cast<size_t>(storage.buffer)] = end;
    end += align_up(storage.bytes, alignment);
  }
  for (const auto* list : {&program.parameters, &program.state}) {
    for (const Value value : *list) {
      const Value kept = training.program().find(program[value].name);
      if (!kept) throw UnsupportedError(fmt::format("training does not keep {}", quote(program[value].name)));
      offsets[static_cast<size_t>(memory.storage_of(value).buffer)] =
          training.memory().offset_of(training.program(), kept);
    }
  }
  for (size_t i = 0; i < offsets.size(); ++i) {
    if (!memory.liveness.buffers[i].persistent) offsets[i] += end - own_end;
  }
  memory.placement.arena_bytes += end - own_end;
}

kernels::Lowered prepare(const ModelForms& model, const Program& forward, int64_t samples) {
  const StepRequest& request = model.request();
  return kernels::prepare(bind_known(forward, {{"batch", samples}}),
                          {.device = request.device, .threads = request.threads});
}

}  // namespace

struct Evaluation::Sums {
  double loss = 0;
  int64_t counted = 0;
  int64_t right = 0;
  int64_t samples = 0;
};

Evaluation::Evaluation(const ModelForms& model, run::Session& session)
    : forward_(bind_known(build(model, false).program, sizes_of(model))) {
  const models::Model trained = build(model, true);
  const program::Op& loss = op_of(trained.program, trained.loss);
  is_classes_ = loss.def->name == "cross_entropy";
  if (!is_classes_ && loss.def->name != "mse_loss") {
    throw UnsupportedError(fmt::format(
        "a model whose loss is {} cannot be evaluated: expected cross_entropy or mse_loss", loss.def->name));
  }
  for (const Value parameter : trained.program.parameters) {
    const std::string& name = trained.program[parameter].name;
    if (!forward_.find(name)) {
      throw UnsupportedError(
          fmt::format("a model whose {} is trained and not part of its inference cannot be evaluated "
                      "while it is trained",
                      quote(name)));
    }
  }
  const program::OwnedOpCall call(trained.program, loss);
  target_ = bind_known(input_alone(trained.program[loss.inputs[1]].name, call->input(1)), sizes_of(model));
  if (is_classes_) {
    axis_ = call->axis("axis");
    ignored_ = call->integer("ignored_index");
    is_tokens_ = call->shape(1).rank() == 2 && axis_ == 2;
  }
  int64_t needed = 0;
  for (int64_t samples = model.batch(); samples > 0; samples /= 2) {
    run::Planned planned{prepare(model, forward_, samples), {}};
    planned.memory = plan::plan_memory(planned.lowered);
    move_into(session, planned.lowered.alignment, planned.lowered.program, planned.memory);
    needed = planned.arena_bytes();
    if (needed > session.arena_bytes()) continue;
    samples_ = samples;
    executor_ = session.join(std::move(planned));
    return;
  }
  throw ArgumentError(fmt::format("evaluating one sample takes an arena of {}, and the step's has {}: give {} more",
                                  format_bytes(needed), format_bytes(session.arena_bytes()),
                                  format_bytes(needed - session.arena_bytes())));
}

Evaluation::~Evaluation() = default;

int64_t Evaluation::steps_of(const ModelForms& model) {
  const Program forward = bind_known(build(model, false).program, sizes_of(model));
  return static_cast<int64_t>(prepare(model, forward, 1).ops.size());
}

Metrics Evaluation::run(Batches& data) {
  Sums sums;
  data.seek({data.position().epoch, 0});
  for (Delivered delivered = data.next(); delivered.batch; delivered = data.next()) {
    for (int64_t first = 0; first < delivered.samples; first += samples_) {
      run_batch(*delivered.batch, first, std::min(samples_, delivered.samples - first), sums);
    }
  }
  if (sums.samples == 0) throw ArgumentError("the data for evaluation has no samples");
  Metrics metrics{.samples = sums.samples};
  metrics.loss = sums.loss / static_cast<double>(std::max<int64_t>(1, sums.counted));
  if (is_classes_) metrics.accuracy = static_cast<double>(sums.right) / static_cast<double>(sums.counted);
  if (is_tokens_) metrics.perplexity = std::exp(metrics.loss);
  return metrics;
}

// Of fewer samples than the program takes, the rest stays as it was and is not looked at.
void Evaluation::run_batch(const Batch& batch, int64_t first, int64_t count, Sums& sums) {
  const Program& program = executor_->program();
  const Program bound = count == samples_ ? Program() : bind_known(forward_, {{"batch", count}});
  for (const Value input : program.inputs) {
    executor_->fill_bytes(input, [&](std::span<std::byte> into) {
      if (count == samples_) return batch.read(program, input, first, into);
      std::memset(into.data(), 0, into.size());
      const auto some = into.first(into.size() / static_cast<size_t>(samples_) * static_cast<size_t>(count));
      batch.read(bound, bound.find(program[input].name), first, some);
    });
  }
  executor_->step();
  sums.samples += count;
  executor_->view_bytes(program.outputs.front(), [&](std::span<const std::byte> bytes) {
    const std::span results(reinterpret_cast<const float*>(bytes.data()), bytes.size() / sizeof(float));
    const auto some = results.first(results.size() / static_cast<size_t>(samples_) * static_cast<size_t>(count));
    is_classes_ ? add_classes(some, batch, first, count, sums) : add_squares(some, batch, first, count, sums);
  });
}

void Evaluation::add_classes(std::span<const float> logits, const Batch& batch, int64_t first, int64_t count,
                             Sums& sums) const {
  const Program bound = bind_known(target_, {{"batch", count}});
  const Value target = bound.inputs.front();
  std::vector<int64_t> targets(static_cast<size_t>(bound[target].type.shape.elements().constant()));
  batch.read(bound, target, first, std::as_writable_bytes(std::span(targets)));
  const program::Dims shape = executor_->program()[executor_->program().outputs.front()].type.shape;
  const int64_t classes = shape[axis_].constant();
  int64_t inner = 1;  // elements from one class to the next
  for (int i = axis_ + 1; i < shape.rank(); ++i) inner *= shape[i].constant();
  for (size_t line = 0; line < targets.size(); ++line) {
    if (targets[line] == ignored_) continue;
    if (targets[line] < 0 || targets[line] >= classes) {
      throw ArgumentError(
          fmt::format("target {} of the evaluation is out of range: there are {} classes", targets[line], classes));
    }
    const auto place = static_cast<int64_t>(line);
    const float* at = logits.data() + place / inner * classes * inner + place % inner;
    int64_t best = 0;
    for (int64_t c = 1; c < classes; ++c) best = at[c * inner] > at[best * inner] ? c : best;
    const auto most = static_cast<double>(at[best * inner]);
    double sum = 0;
    for (int64_t c = 0; c < classes; ++c) sum += std::exp(static_cast<double>(at[c * inner]) - most);
    sums.loss += most + std::log(sum) - static_cast<double>(at[targets[line] * inner]);
    sums.right += best == targets[line] ? 1 : 0;
    ++sums.counted;
  }
}

void Evaluation::add_squares(std::span<const float> results, const Batch& batch, int64_t first, int64_t count,
                             Sums& sums) const {
  const Program bound = bind_known(target_, {{"batch", count}});
  std::vector<float> targets(results.size());
  batch.read(bound, bound.inputs.front(), first, std::as_writable_bytes(std::span(targets)));
  for (size_t i = 0; i < targets.size(); ++i) {
    const double difference = static_cast<double>(results[i]) - static_cast<double>(targets[i]);
    sums.loss += difference * difference;
  }
  sums.counted += static_cast<int64_t>(targets.size());
}

}  // namespace plimsoll::train
