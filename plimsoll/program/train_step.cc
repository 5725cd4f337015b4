#include "plimsoll/program/train_step.h"

#include <algorithm>
#include <array>

#include "plimsoll/program/ops/elementwise_binary.h"
#include "plimsoll/program/spread_parameters.h"
#include "plimsoll/program/updates.h"

namespace plimsoll::program {
namespace {

constexpr std::array<std::string_view, 6> kOptimizerNames = {"sgd", "momentum", "adam", "adamw", "lion", "adafactor"};

constexpr std::array<std::string_view, 4> kShardingNames = {"none", "optimizer", "gradients", "parameters"};

}  // namespace

std::string_view name(Optimizer optimizer) { return kOptimizerNames[static_cast<size_t>(optimizer)]; }

std::optional<Optimizer> try_parse_optimizer(std::string_view text) {
  const auto found = std::find(kOptimizerNames.begin(), kOptimizerNames.end(), text);
  if (found == kOptimizerNames.end()) return std::nullopt;
  return static_cast<Optimizer>(found - kOptimizerNames.begin());
}

std::string_view name(Sharding sharding) { return kShardingNames[static_cast<size_t>(sharding)]; }

std::optional<Sharding> try_parse_sharding(std::string_view text) {
  const auto found = std::find(kShardingNames.begin(), kShardingNames.end(), text);
  if (found == kShardingNames.end()) return std::nullopt;
  return static_cast<Sharding>(found - kShardingNames.begin());
}

Program training_step(Program model, Value loss, const TrainOptions& options) {
  if (options.ranks > 1) pair_seeds(model);
  Builder b(std::move(model));
  const std::vector<Value>& outputs = b.program().outputs;
  if (std::find(outputs.begin(), outputs.end(), loss) == outputs.end()) b.output(loss);
  LossScale scale;
  if (options.scale_loss) scale = scale_of_loss(b);
  Value seed = scale.value;
  if (options.ranks > 1) {
    const Value weight = b.input("rank.weight", b.type(loss));
    seed = seed ? mul(b, weight, seed) : weight;
  }
  const std::vector<Trained> trained = find_trained(b, loss, seed);
  const size_t first_update = b.program().ops.size();
  const std::vector<int32_t> after = append_updates(b, trained, options, scale);
  Program step = std::move(b).finish();
  if (options.early_updates) place_after(step, first_update, after);
  return spread_parameters(std::move(step), options);
}

}  // namespace plimsoll::program
