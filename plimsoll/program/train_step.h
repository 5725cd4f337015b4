// From a model and its loss to one whole training step: forward, backward and update in one program.
#pragma once

#include <optional>
#include <string_view>

#include "plimsoll/program/program.h"

namespace plimsoll::program {

enum class Optimizer : uint8_t { sgd, momentum, adam, adamw, lion, adafactor };
std::string_view name(Optimizer optimizer);
std::optional<Optimizer> try_parse_optimizer(std::string_view text);

// What of the training's memory each of several ranks holds a part of, in place of all.
enum class Sharding : uint8_t {
  none,
  optimizer,   // its state: each rank updates its part of the parameters, which all gather
  gradients,   // and the sums of gradients of a batch in micro-batches
  parameters,  // and parameters: gathered ahead of what reads them, and dropped after (spread_parameters.h)
};
std::string_view name(Sharding sharding);
std::optional<Sharding> try_parse_sharding(std::string_view text);

inline constexpr int64_t kUsualBucket = int64_t{1} << 20;

struct TrainOptions {
  Optimizer optimizer = Optimizer::adam;
  double weight_decay = 0;
  double momentum = 0.9;  // momentum only, as is nesterov
  bool nesterov = false;
  double beta1 = 0.9;  // adam, adamw and lion only, as is beta2; eps is of the first two
  double beta2 = 0.999;
  double eps = 1e-8;
  std::optional<double> clip_norm = {};  // of all gradients together; they are scaled down to it
  bool scale_loss = false;               // and skip steps whose gradients are not finite: for f16, see ops/optimizer.h
  bool eight_bit_state = false;          // of parameters of some size: changes the numbers, see ops/state_8bit.h
  bool early_updates = true;             // off: all updates stand after the last backward op
  // That each take some samples of the batch (ops/collective.h). A step then has the input `rank.weight`, of the loss's
  // type: the share of the rank's own mean in the loss of the whole batch. Seeds are pairs, as in split_step.h.
  int ranks = 1;
  Sharding sharding = Sharding::none;
  int64_t bucket_bytes = kUsualBucket;  // gradients of fewer are summed together, up to so many
  bool overlap = true;                  // sums and gathers go on while other ops run; off: each is waited for at once
};

// Appends the gradients of all floating parameters and their updates. New values: the input `optimizer.rate`, f32[]
// (the learning rate); for adam, adamw and adafactor the counter `optimizer.step`, i64[], zero before the first step;
// for parameter w the state `optimizer.w.velocity`, or `.mean` and `.square`, of its type and zero at first; for lion
// `.mean` alone; for adafactor `.rows` and `.columns` of a matrix, `.square` of anything less (ops/factored.h). In 8
// bits each of these has its scales beside it (`optimizer.w.mean_scales`), and momentum has the counter, too. The loss
// is an output.
//
// A parameter is updated right after the op that completes its gradient, or the last that reads the parameter if that
// is later, so that the gradient's memory is free at once. Clipping and scaling the loss must know all gradients before
// the first update. The scale of the loss is the state `optimizer.loss_scale`, i64[2], zero at first.
//
// With several ranks, gradients are summed over them before they are used (gradient_sums.h); with sharding, state has
// the shape of a shard of the parameter's elements. UnsupportedError for an optimizer that is not elementwise then.
//
// Parameters that the loss does not depend on stay as they are. ArgumentError when it depends on none, and from
// gradients().
Program training_step(Program model, Value loss, const TrainOptions& options = {});

}  // namespace plimsoll::program
