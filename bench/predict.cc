// Predicted against measured time of a step, over models, batches and budgets. Kernels are timed one by one, the step
// is planned with these times, and run. On one thread, in processor time: what else runs on the machine does not count.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <ctime>
#include <string_view>
#include <vector>

#include "plimsoll/base/bytes.h"
#include "plimsoll/base/error.h"
#include "plimsoll/memory/limits.h"
#include "plimsoll/models/step.h"
#include "plimsoll/plan/measure.h"
#include "plimsoll/train/fit.h"
#include "plimsoll/train/parts_trainer.h"

namespace {

using namespace plimsoll;

struct Case {
  std::string_view model;
  program::Bindings sizes;
};

const std::vector<Case> kCases = {{"mlp", {{"batch", 16}}},
                                  {"mlp", {{"batch", 256}}},
                                  {"lenet", {{"batch", 16}}},
                                  {"lenet", {{"batch", 128}}},
                                  {"resnet18", {{"batch", 1}}},
                                  {"resnet18", {{"batch", 4}}},
                                  {"vgg16", {{"batch", 1}}},
                                  {"mobilenet_v2", {{"batch", 2}}},
                                  {"unet", {{"batch", 1}}},
                                  {"vit_b_16", {{"batch", 1}}},
                                  {"gpt2-nano", {{"batch", 1}, {"sequence", 128}}},
                                  {"gpt2-nano", {{"batch", 8}, {"sequence", 64}}}};
constexpr double kFractions[] = {1, 0.6, 0.35};  // of the activation memory of the step as it is
constexpr int kSteps = 3;                        // after one that warms up; the median counts
constexpr double kTarget = 0.15;

double processor_seconds() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) / 1e9;
}

double median(std::vector<double> of) {
  std::sort(of.begin(), of.end());
  return of[of.size() / 2];
}

// The step of a model in its forms, its kernels timed on first sight.
class Subject {
 public:
  explicit Subject(const Case& wanted) : model_(models::find_model(wanted.model)) {
    options_.sizes = wanted.sizes;
    options_.train.optimizer = program::Optimizer::sgd;
    try {
      parts_ = models::build_parts_step(model_, options_);
    } catch (const UnsupportedError&) {  // taken whole
    }
  }

  plan::StepForms forms() {
    plan::StepForms forms{options_.sizes.at("batch"), [this] { return prepare(models::build_step(model_, options_)); }};
    forms.costs = [this](const kernels::Lowered& lowered) { return plan::costs_of(lowered, table_); };
    forms.learn = [this](const plan::StepPlan& step) { return learn(step); };
    if (!parts_) return forms;
    forms.part = [this](int64_t size) { return prepare(program::bind(parts_->split.part, {{"batch", size}})); };
    forms.update = [this] { return prepare(parts_->split.update); };
    return forms;
  }

  double measured_s(const plan::StepPlan& step, run::Session& session) const {
    constexpr double kRate = 1e-4;
    start(session.executor());
    if (!step.in_parts()) {
      train::Trainer trainer(session.executor(), {.rate = kRate});
      return median_step_s(trainer);
    }
    train::PartsTrainer trainer(train::parts_of(session, step.sizes, parts_->split), {.rate = kRate});
    return median_step_s(trainer);
  }

 private:
  static kernels::Lowered prepare(program::Program program) {
    return kernels::prepare(std::move(program), {.threads = 1});
  }

  bool learn(const plan::StepPlan& step) {
    const size_t known = table_.size();
    std::vector<const kernels::Lowered*> programs;
    for (const plan::PlannedProgram& program : step.programs) programs.push_back(&program.lowered);
    plan::measure_costs(programs, {.budget = machine_budget()}, table_);
    return table_.size() > known;
  }

  void start(run::Executor& executor) const {
    const models::Step step = models::build_whole_step(model_, options_);
    for (size_t i = 0; i < step.inits.size(); ++i) {
      models::draw(step.inits[i], executor.data<float>(executor.program().parameters[i]), 1, i);
    }
    for (size_t i = 0; i < step.state_inits.size(); ++i) {
      models::draw(step.state_inits[i], executor.data<float>(executor.program().state[i]), 1, 1000 + i);
    }
  }

  template <class T>
  static double median_step_s(T& trainer) {
    trainer.step();
    std::vector<double> seconds;
    for (int i = 0; i < kSteps; ++i) {
      const double start = processor_seconds();
      trainer.step();
      seconds.push_back(processor_seconds() - start);
    }
    return median(seconds);
  }

  const models::ModelInfo& model_;
  models::StepOptions options_;
  std::optional<models::PartsStep> parts_;
  plan::CostTable table_;
};

// Errors of the predictions, relative to what was measured.
void run_case(const Case& wanted, std::vector<double>& errors) {
  Subject subject(wanted);
  const plan::StepForms forms = subject.forms();
  const auto unlimited = plan::plan_step(forms, {});
  const auto& whole = std::get<plan::StepPlan>(unlimited).programs[0];
  int64_t resident = 0;
  for (const plan::Placed& placed : whole.plan.resident) {
    resident += align_up(whole.lowered.program[placed.owner].type.spec().bytes(), kernels::kAlignment);
  }
  for (const double fraction : kFractions) {
    const double activations = static_cast<double>(whole.plan.arena_bytes - resident) * fraction;
    const int64_t budget = resident + static_cast<int64_t>(activations);
    auto made = plan::plan_step(forms, {.budget_bytes = budget, .find_smallest = false});
    auto* step = std::get_if<plan::StepPlan>(&made);
    if (step == nullptr) continue;
    const auto session = train::bind_plan(*step, machine_budget());
    const double measured = subject.measured_s(*step, *session);
    errors.push_back(step->predicted_s / measured - 1);
    fmt::print("  {:<14} {:>5} {:>6.0f} % {:>6} {:>10.1f} {:>10.1f} {:>+8.1f} %\n", wanted.model,
               wanted.sizes.at("batch"), fraction * 100, step->sizes.size(), step->predicted_s * 1e3, measured * 1e3,
               errors.back() * 100);
  }
}

}  // namespace

int main() {
  std::setvbuf(stdout, nullptr, _IOLBF, 0);  // what is known is shown, also into a file
  fmt::print("predicted and measured time of a step, ms\n  {:<14} {:>5} {:>8} {:>6} {:>10} {:>10} {:>10}\n", "model",
             "batch", "memory", "parts", "predicted", "measured", "error");
  std::vector<double> errors;
  for (const Case& wanted : kCases) run_case(wanted, errors);
  for (double& error : errors) error = std::abs(error);
  const double middle = median(errors);
  fmt::print("median error {:.1f} % over {} plans, largest {:.1f} % (target: median {:.0f} %{})\n", middle * 100,
             errors.size(), *std::max_element(errors.begin(), errors.end()) * 100, kTarget * 100,
             middle <= kTarget ? "" : ", MISSED");
}
