// Dropout, optimizer updates and the numbers around them.
#include "plimsoll/program/ops/optimizer.h"

#include <algorithm>

#include "plimsoll/kernels/cuda/support/sums.h"
#include "plimsoll/program/random.h"

namespace plimsoll::kernels {
namespace {

using namespace cuda;  // NOLINT: the whole file is of it

Kernel dropout(const Use& use) {
  Steps steps(use);
  const double rate = use.call.real("rate");
  const int64_t n = use.out().elements();
  Launch launch{"dropout"};
  launch.defines.set("T", use.out().dtype);
  launch.grid = {blocks_for(n, 256, 8)};
  const Shape& x = use.in(0).shape;
  const int64_t of_row = x.rank() > 0 ? n / std::max<int64_t>(x[0], 1) : 0;
  launch.arguments =
      Arguments(n, of_row, out(), steps.contiguous(0), steps.contiguous(1), int32_t{use.in(1).elements() > 1},
                static_cast<uint64_t>(use.call.integer("stream")), use.call.integer("offset"),
                program::drop_threshold(rate), static_cast<float>(1 / (1 - rate)));
  steps.launch(launch);
  return steps.kernel();
}

float real(const Use& use, const char* name) { return static_cast<float>(use.call.real(name)); }

// Operands w, dw, states, perhaps the step, the rate, perhaps the scale: `rate` says which the rate is.
Launch update_launch(const Use& use, const char* kind, int states, int rate) {
  Launch launch{"optimizer"};
  launch.defines.set(kind).set("W", use.in(0).dtype).set("RATE", use.in(rate).dtype);
  launch.defines.set("SCALE", rate + 1 < use.arity() ? use.in(rate + 1).dtype : DType::f32);
  for (int k = 0; k < states; ++k) launch.defines.set("S" + std::to_string(k), use.in(2 + k).dtype);
  launch.grid = {blocks_for(use.in(0).elements())};
  return launch;
}

At scale_of(Steps& steps, int rate) { return steps.contiguous_or_none(rate + 1); }

Kernel sgd(const Use& use) {
  Steps steps(use);
  Launch launch = update_launch(use, "SGD", 0, 2);
  launch.arguments = Arguments(use.in(0).elements(), out(0), steps.contiguous(1), steps.contiguous(2),
                               scale_of(steps, 2), real(use, "weight_decay"));
  steps.launch(launch);
  return steps.kernel();
}

Kernel momentum(const Use& use) {
  Steps steps(use);
  Launch launch = update_launch(use, "MOMENTUM", 1, 3);
  launch.arguments =
      Arguments(use.in(0).elements(), out(0), steps.contiguous(1), out(1), steps.contiguous(3), scale_of(steps, 3),
                real(use, "momentum"), int32_t{use.call.flag("nesterov")}, real(use, "weight_decay"));
  steps.launch(launch);
  return steps.kernel();
}

KernelDef adam(bool decoupled) {
  const auto prepare = [decoupled](const Use& use) {
    Steps steps(use);
    Launch launch = update_launch(use, "ADAM", 2, 5);
    launch.defines.set("STEP", use.in(4).dtype).set("DECOUPLED", decoupled ? "1" : "0");
    launch.grid = {std::min<int64_t>(blocks_for(use.in(0).elements(), 256, 8), 132 * 16)};
    launch.arguments = Arguments(use.in(0).elements(), out(0), steps.contiguous(1), out(1), out(2), steps.contiguous(4),
                                 steps.contiguous(5), scale_of(steps, 5), use.call.real("beta1"),
                                 use.call.real("beta2"), real(use, "eps"), real(use, "weight_decay"));
    steps.launch(launch);
    return steps.kernel();
  };
  return {prepare, any_layout};
}

// ---- state in codes ----

Launch coded_launch(const Use& use, const char* kind, int step) {
  Launch launch{"state_8bit"};
  launch.defines.set(kind).set("W", use.in(0).dtype).set("STEP", use.in(step).dtype);
  launch.defines.set("RATE", use.in(step + 1).dtype);
  launch.defines.set("SCALE", step + 2 < use.arity() ? use.in(step + 2).dtype : DType::f32);
  launch.grid = {blocks_for(use.in(0).elements(), 256)};
  return launch;
}

Kernel momentum_8bit(const Use& use) {
  Steps steps(use);
  Launch launch = coded_launch(use, "MOMENTUM", 4);
  launch.arguments = Arguments(use.in(0).elements(), out(0), steps.contiguous(1), out(1), out(2), steps.contiguous(4),
                               steps.contiguous(5), steps.contiguous_or_none(6), real(use, "momentum"),
                               int32_t{use.call.flag("nesterov")}, real(use, "weight_decay"));
  steps.launch(launch);
  return steps.kernel();
}

KernelDef adam_8bit(bool decoupled) {
  const auto prepare = [decoupled](const Use& use) {
    Steps steps(use);
    Launch launch = coded_launch(use, "ADAM", 6);
    launch.defines.set("DECOUPLED", decoupled ? "1" : "0");
    launch.arguments =
        Arguments(use.in(0).elements(), out(0), steps.contiguous(1), out(1), out(2), out(3), out(4),
                  steps.contiguous(6), steps.contiguous(7), steps.contiguous_or_none(8), use.call.real("beta1"),
                  use.call.real("beta2"), real(use, "eps"), real(use, "weight_decay"));
    steps.launch(launch);
    return steps.kernel();
  };
  return {prepare, any_layout};
}

// ---- single numbers ----

Launch scalar_launch(const Use& use, const char* function, DType real_type) {
  Launch launch{"optimizer"};
  const DType step = use.arity() > 0 && is_integer(use.in(0).dtype) ? use.in(0).dtype : DType::i64;
  launch.defines.set("SCALARS").set("RATE", real_type).set("STEP", step);
  launch.function = function;
  launch.block = {1, 1};
  return launch;
}

Kernel next_step(const Use& use) {
  Launch launch = scalar_launch(use, "next_step", DType::f32);
  launch.arguments = Arguments(out());
  return kernel_of({step(launch)});
}

Kernel loss_scale(const Use& use) {
  Launch launch = scalar_launch(use, "loss_scale", DType::f32);
  launch.arguments = Arguments(in(0), out(), static_cast<int32_t>(program::kFirstLossScale));
  return kernel_of({step(launch)});
}

Kernel next_loss_scale(const Use& use) {
  Launch launch = scalar_launch(use, "next_loss_scale", use.in(1).dtype);
  launch.arguments = Arguments(out(), in(1), static_cast<int64_t>(program::kLossScaleSteps));
  return kernel_of({step(launch)});
}

Kernel unscale(const Use& use) {
  Launch launch = scalar_launch(use, "unscale", use.in(0).dtype);
  launch.arguments = Arguments(out(), in(0), in(1));
  return kernel_of({step(launch)});
}

Kernel clip_scale(const Use& use) {
  Launch launch = scalar_launch(use, "clip_scale", use.in(0).dtype);
  launch.arguments = Arguments(out(), in(0), real(use, "max_norm"));
  return kernel_of({step(launch)});
}

// A sum of squares for each operand, and the root of their sum.
Kernel global_norm(const Use& use) {
  Steps steps(use);
  const At sums = steps.scratch(use.arity() * 4);
  for (int i = 0; i < use.arity(); ++i) {
    cuda::reduce(steps, {use.in(i).dtype, in(i), {}, walk_of(use.in(i))}, {.map = "v * v"}, DType::f32,
                 sums + int64_t{4} * i);
  }
  Launch launch = scalar_launch(use, "root_of_sums", use.out().dtype);
  launch.block = {256, 1};
  launch.arguments = Arguments(static_cast<int64_t>(use.arity()), sums, out());
  steps.launch(launch);
  return steps.kernel();
}

// ---- accumulation ----

Kernel clear(const Use& use) { return kernel_of({fill_bytes(out(), 0, use.out().bytes())}); }

}  // namespace

void register_optimizer_cuda(KernelTable& table) {
  table.add("dropout", {dropout, any_layout});
  table.add("sgd", {sgd, any_layout});
  table.add("momentum", {momentum, any_layout});
  table.add("adam", adam(false));
  table.add("adamw", adam(true));
  table.add("momentum_8bit", {momentum_8bit, any_layout});
  table.add("adam_8bit", adam_8bit(false));
  table.add("adamw_8bit", adam_8bit(true));
  table.add("next_step", {next_step, any_layout});
  table.add("loss_scale", {loss_scale, any_layout});
  table.add("next_loss_scale", {next_loss_scale, any_layout});
  table.add("unscale", {unscale, any_layout});
  table.add("clip_scale", {clip_scale, any_layout});
  table.add("global_norm", {global_norm, any_layout});
  table.add("clear", {clear, any_layout});
}

}  // namespace plimsoll::kernels
