#include "plimsoll/train/alternatives.h"

#include <gtest/gtest.h>

#include "plimsoll/base/bytes.h"
#include "plimsoll/plimsoll.h"

namespace plimsoll::train {
namespace {

// Weights with their state, and results under statistics over the batch: state in 8 bits saves one, micro-batches the
// other. It is a model of one's own, which is not built again in bf16.
StepRequest normalised_model() {
  Net net;
  Value x = net.input("x", {batch, 3, 32, 32});
  x = relu(net, batch_norm(net, "bn", conv2d(net, "conv", x, 64, 3, {.padding = 1})));
  x = relu(net, linear(net, "fc1", flatten(net, x), 32));
  Model model = classify(std::move(net), linear(net, "fc2", x, 10));
  StepRequest request{.model = models::own_model("normalised", std::move(model), {})};
  request.step.sizes["batch"] = 32;
  request.threads = 1;
  return request;
}

plan::PlanOptions within(int64_t bytes) { return {.budget_bytes = bytes}; }

void apply(const Alternative::Setting& setting, StepRequest& request) {
  if (setting.option == "allow") request.allow.push_back(setting.value);
  if (setting.option == "precision") request.step.precision = DType::bf16;
  if (setting.option == "batch") request.step.sizes["batch"] = std::stoll(setting.value);
}

// The first budget, in steps downwards from the smallest of the model itself, for which no change alone is enough.
std::pair<int64_t, Alternative> first_combined(const StepRequest& request) {
  const ModelForms model(request);
  const int64_t smallest = std::get<plan::Refusal>(plan::plan_step(model.forms(), within(64))).smallest_bytes;
  for (int64_t bytes = smallest - 4096; bytes > kMiB; bytes -= kMiB) {
    const auto ways = find_alternatives(request, within(bytes), model.why_whole());
    if (!ways.empty() && ways[0].settings.size() > 1) return {bytes, ways[0]};
  }
  return {};
}

TEST(Alternatives, CombineChangesWhereNoneFitsAlone) {
  const StepRequest request = normalised_model();
  const auto [bytes, way] = first_combined(request);
  ASSERT_GT(way.settings.size(), 1U);
  EXPECT_LE(way.arena_bytes, bytes);
  EXPECT_EQ(way.how().substr(0, 8), "--allow ");
  StepRequest changed = request;
  for (const Alternative::Setting& setting : way.settings) apply(setting, changed);
  const ModelForms model(changed);
  EXPECT_TRUE(std::holds_alternative<plan::StepPlan>(plan::plan_step(model.forms(), within(bytes)))) << way.how();
}

}  // namespace
}  // namespace plimsoll::train
