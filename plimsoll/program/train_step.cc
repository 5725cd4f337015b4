#include "plimsoll/program/train_step.h"

#include <algorithm>
#include <array>

#include "plimsoll/program/updates.h"

namespace plimsoll::program {
namespace {

constexpr std::array<std::string_view, 6> kOptimizerNames = {"sgd", "momentum", "adam", "adamw", "lion", "adafactor"};

// Each update goes to where its gradient is ready; what all of them need goes with the first.
void place_early(Program& program, size_t first_update, std::span<const Trained> trained) {
  const size_t shared = program.ops.size() - first_update - trained.size();
  std::vector<int32_t> after(shared, trained[0].after);
  for (const Trained& one : trained) after.push_back(one.after);
  place_after(program, first_update, after);
}

}  // namespace

std::string_view name(Optimizer optimizer) { return kOptimizerNames[static_cast<size_t>(optimizer)]; }

std::optional<Optimizer> try_parse_optimizer(std::string_view text) {
  const auto found = std::find(kOptimizerNames.begin(), kOptimizerNames.end(), text);
  if (found == kOptimizerNames.end()) return std::nullopt;
  return static_cast<Optimizer>(found - kOptimizerNames.begin());
}

Program training_step(Program model, Value loss, const TrainOptions& options) {
  Builder b(std::move(model));
  const std::vector<Value>& outputs = b.program().outputs;
  if (std::find(outputs.begin(), outputs.end(), loss) == outputs.end()) b.output(loss);
  LossScale scale;
  if (options.scale_loss) scale = scale_of_loss(b);
  const std::vector<Trained> trained = find_trained(b, loss, scale.value);
  const size_t first_update = b.program().ops.size();
  append_updates(b, trained, options, scale);
  Program step = std::move(b).finish();
  if (options.early_updates && !options.clip_norm && !options.scale_loss) place_early(step, first_update, trained);
  return step;
}

}  // namespace plimsoll::program
