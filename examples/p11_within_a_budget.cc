// P11, small: a batch that does not fit is taken in as many micro-batches as it must be, and trains to the same losses.
// The whole of it, 256 images of 1024x1024 in 2 GiB, is `plimsoll train p11 --batch 256 --budget 2GiB`.
#include <fmt/format.h>

#include <cmath>

#include "plimsoll/memory/limits.h"
#include "plimsoll/models/step.h"
#include "plimsoll/plan/micro_batches.h"
#include "plimsoll/train/fit.h"
#include "plimsoll/train/micro_batch_trainer.h"

using namespace plimsoll;

namespace {

constexpr int64_t kBatch = 64;
constexpr int kSteps = 3;

void start(run::Executor& executor, const std::vector<models::Init>& inits) {
  for (size_t i = 0; i < inits.size(); ++i) {
    models::draw(inits[i], executor.data<float>(executor.program().parameters[i]), 1, i);
  }
}

}  // namespace

int main() {
  const models::ModelInfo& model = models::find_model("p11");
  const models::StepOptions options = {.sizes = {{"batch", kBatch}}, .size = models::Size::small};
  const models::Step step = models::build_whole_step(model, options);
  run::Session whole(step.program, {}, machine_budget());
  start(whole.executor(), step.inits);
  train::Trainer trainer(whole.executor(), {});

  const models::MicroBatchStep cut = models::build_micro_batch_step(model, options);
  const plan::StepForms forms = {kBatch, [&] { return kernels::prepare(step.program); },
                                 [&](int64_t size) {
                                   return kernels::prepare(program::bind(cut.split.micro_batch, {{"batch", size}}));
                                 },
                                 [&] { return kernels::prepare(cut.split.update); }};
  const int64_t budget = whole.arena_bytes() / 6;
  auto made = plan::plan_step(forms, {.budget_bytes = budget});
  if (!std::holds_alternative<plan::StepPlan>(made)) return 1;
  auto& plan = std::get<plan::StepPlan>(made);
  const auto session = train::bind_plan(plan, {budget, "a sixth"});
  start(session->executor(), cut.inits);
  train::MicroBatchTrainer in_micro_batches(train::micro_batches_of(*session, plan.sizes, cut.split), {});

  double worst = 0;
  for (int i = 0; i < kSteps; ++i)
    worst = std::max(worst, std::abs(double{trainer.step()} - double{in_micro_batches.step()}));
  fmt::print("whole: {} bytes; budget {}: {} micro-batches, {} bytes; losses differ by {:.1e}\n", whole.arena_bytes(),
             budget, plan.sizes.size(), session->arena_bytes(), worst);
  return plan.in_micro_batches() && worst < 1e-6 ? 0 : 1;
}
