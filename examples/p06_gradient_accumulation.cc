// P6: gradients accumulated over 4 micro-batches whose samples have different numbers of tokens. Each micro-batch's
// loss is a mean over its own tokens; weighted by their share of the batch's, the micro-batches give the gradients of
// the whole. Were they weighted alike, as is often done, they would not.
#include <fmt/format.h>

#include <cmath>

#include "plimsoll/memory/limits.h"
#include "plimsoll/models/step.h"
#include "plimsoll/run/session.h"
#include "plimsoll/train/micro_batch_trainer.h"
#include "plimsoll/train/synthetic.h"

using namespace plimsoll;

namespace {

constexpr int64_t kBatch = 8;
constexpr int64_t kTokens = 9;

// Sample i has kTokens - i tokens; the targets of the others are ignored.
class RaggedText : public train::SyntheticBatch {
 public:
  RaggedText() : SyntheticBatch(1) {}

  void read(const program::Program& program, program::Value input, int64_t first,
            std::span<std::byte> into) const override {
    SyntheticBatch::read(program, input, first, into);
    if (program[input].name != "target") return;
    auto* targets = reinterpret_cast<int64_t*>(into.data());
    for (size_t i = 0; i < into.size() / sizeof(int64_t); ++i) {
      const int64_t sample = first + static_cast<int64_t>(i) / kTokens;
      if (static_cast<int64_t>(i) % kTokens >= kTokens - sample) targets[i] = -100;
    }
  }
};

void start(run::Executor& executor, const std::vector<models::Init>& inits) {
  for (size_t i = 0; i < inits.size(); ++i) {
    models::draw(inits[i], executor.data<float>(executor.program().parameters[i]), 1, i);
  }
}

// The velocities of all parameters: after one step with momentum they are the gradients.
std::vector<float> gradients_of(run::Executor& executor) {
  std::vector<float> all;
  for (const program::Value state : executor.program().state) {
    if (!executor.program()[state].name.ends_with(".velocity")) continue;
    const auto data = executor.data<float>(state);
    all.insert(all.end(), data.begin(), data.end());
  }
  return all;
}

double length(const std::vector<float>& vector) {
  double sum = 0;
  for (const double x : vector) sum += x * x;
  return std::sqrt(sum);
}

}  // namespace

int main() {
  models::StepOptions options = {.sizes = {{"batch", kBatch}, {"sequence", kTokens}}, .size = models::Size::small};
  options.train.optimizer = program::Optimizer::momentum;
  const models::ModelInfo& gpt = models::find_model("gpt2-nano");
  const train::TrainerOptions trainer_options{.batch = std::make_shared<RaggedText>()};

  const models::Step step = models::build_whole_step(gpt, options);
  run::Session whole(step.program, {}, machine_budget());
  start(whole.executor(), step.inits);
  const float loss = train::Trainer(whole.executor(), trainer_options).step();

  const models::MicroBatchStep cut = models::build_micro_batch_step(gpt, options);
  std::vector<run::Planned> programs;
  programs.push_back(run::plan_as_it_is(program::bind(cut.split.micro_batch, {{"batch", kBatch / 4}}), {}));
  programs.push_back(run::plan_as_it_is(cut.split.update, {}));
  run::Session micro_batches(std::move(programs), machine_budget());
  start(micro_batches.executor(), cut.inits);
  train::MicroBatchTrainer trainer(
      train::micro_batches_of(micro_batches, std::vector<int64_t>(4, kBatch / 4), cut.split), trainer_options);
  const float sum = trainer.step();

  std::vector<float> difference = gradients_of(whole.executor());
  const double size = length(difference);
  const std::vector<float> accumulated = gradients_of(micro_batches.executor());
  for (size_t i = 0; i < difference.size(); ++i) difference[i] -= accumulated[i];
  const double error = length(difference) / size;
  fmt::print("whole batch: loss {:.6f}, {} bytes; 4 micro-batches: loss {:.6f}, {} bytes; gradients differ by {:.1e}\n",
             loss, whole.arena_bytes(), sum, micro_batches.arena_bytes(), error);
  return error < 1e-6 && std::abs(loss - sum) < 1e-5 ? 0 : 1;
}
