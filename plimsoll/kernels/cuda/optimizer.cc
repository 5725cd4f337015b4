// Dropout, optimizer updates and the numbers around them.
#include "plimsoll/program/ops/optimizer.h"

#include <algorithm>
#include <cmath>

#include "plimsoll/kernels/cuda/support/sums.h"
#include "plimsoll/program/random.h"

namespace plimsoll::kernels {
namespace {

using namespace cuda;  // NOLINT: the whole file is of it

Kernel dropout(const KernelCall& call) {
  Steps steps(call);
  const double rate = call.op.real("rate");
  const int64_t n = call.out().elements();
  Launch launch{"dropout"};
  launch.defines.set("T", call.out().dtype);
  launch.grid = {blocks_for(n, 256, 8)};
  const Shape& x = call.in(0).shape;
  const int64_t of_row = x.rank() > 0 ? n / std::max<int64_t>(x[0], 1) : 0;
  launch.arguments =
      Arguments(n, of_row, out(), steps.contiguous(0), steps.contiguous(1), int32_t{call.in(1).elements() > 1},
                static_cast<uint64_t>(call.op.integer("stream")), call.op.integer("offset"),
                program::drop_threshold(rate), static_cast<float>(1 / (1 - rate)));
  steps.launch(launch);
  return steps.kernel();
}

float real(const KernelCall& call, const char* name) { return static_cast<float>(call.op.real(name)); }

// Operands w, dw, states, perhaps the step, the rate, perhaps the scale: `rate` says which the rate is.
Launch update_launch(const KernelCall& call, const char* kind, int states, int rate) {
  Launch launch{"optimizer"};
  launch.defines.set(kind).set("W", call.in(0).dtype).set("RATE", call.in(rate).dtype);
  launch.defines.set("SCALE", rate + 1 < call.arity() ? call.in(rate + 1).dtype : DType::f32);
  for (int k = 0; k < states; ++k) launch.defines.set("S" + std::to_string(k), call.in(2 + k).dtype);
  launch.grid = {blocks_for(call.in(0).elements())};
  return launch;
}

At scale_of(Steps& steps, int rate) { return steps.contiguous_or_none(rate + 1); }

Kernel sgd(const KernelCall& call) {
  Steps steps(call);
  Launch launch = update_launch(call, "SGD", 0, 2);
  launch.arguments = Arguments(call.in(0).elements(), out(0), steps.contiguous(1), steps.contiguous(2),
                               scale_of(steps, 2), real(call, "weight_decay"));
  steps.launch(launch);
  return steps.kernel();
}

Kernel momentum(const KernelCall& call) {
  Steps steps(call);
  Launch launch = update_launch(call, "MOMENTUM", 1, 3);
  launch.arguments =
      Arguments(call.in(0).elements(), out(0), steps.contiguous(1), out(1), steps.contiguous(3), scale_of(steps, 3),
                real(call, "momentum"), int32_t{call.op.flag("nesterov")}, real(call, "weight_decay"));
  steps.launch(launch);
  return steps.kernel();
}

Kernel lion(const KernelCall& call) {
  Steps steps(call);
  Launch launch = update_launch(call, "LION", 1, 3);
  launch.arguments =
      Arguments(call.in(0).elements(), out(0), steps.contiguous(1), out(1), steps.contiguous(3), scale_of(steps, 3),
                real(call, "beta1"), real(call, "beta2"), real(call, "weight_decay"));
  steps.launch(launch);
  return steps.kernel();
}

KernelDef adam(bool decoupled) {
  const auto prepare = [decoupled](const KernelCall& call) {
    Steps steps(call);
    Launch launch = update_launch(call, "ADAM", 2, 5);
    launch.defines.set("STEP", call.in(4).dtype).set("DECOUPLED", decoupled ? "1" : "0");
    launch.grid = {std::min<int64_t>(blocks_for(call.in(0).elements(), 256, 8), 132 * 16)};
    launch.arguments = Arguments(call.in(0).elements(), out(0), steps.contiguous(1), out(1), out(2),
                                 steps.contiguous(4), steps.contiguous(5), scale_of(steps, 5), call.op.real("beta1"),
                                 call.op.real("beta2"), std::log(call.op.real("beta1")),
                                 std::log(call.op.real("beta2")), real(call, "eps"), real(call, "weight_decay"));
    steps.launch(launch);
    return steps.kernel();
  };
  return {prepare, any_layout};
}

// ---- state in codes ----

Launch coded_launch(const KernelCall& call, const char* kind, int step) {
  Launch launch{"state_8bit"};
  launch.defines.set(kind).set("W", call.in(0).dtype).set("STEP", call.in(step).dtype);
  launch.defines.set("RATE", call.in(step + 1).dtype);
  launch.defines.set("SCALE", step + 2 < call.arity() ? call.in(step + 2).dtype : DType::f32);
  launch.grid = {blocks_for(call.in(0).elements(), 256)};
  return launch;
}

Kernel momentum_8bit(const KernelCall& call) {
  Steps steps(call);
  Launch launch = coded_launch(call, "MOMENTUM", 4);
  launch.arguments = Arguments(call.in(0).elements(), out(0), steps.contiguous(1), out(1), out(2), steps.contiguous(4),
                               steps.contiguous(5), steps.contiguous_or_none(6), real(call, "momentum"),
                               int32_t{call.op.flag("nesterov")}, real(call, "weight_decay"));
  steps.launch(launch);
  return steps.kernel();
}

KernelDef adam_8bit(bool decoupled) {
  const auto prepare = [decoupled](const KernelCall& call) {
    Steps steps(call);
    Launch launch = coded_launch(call, "ADAM", 6);
    launch.defines.set("DECOUPLED", decoupled ? "1" : "0");
    launch.arguments =
        Arguments(call.in(0).elements(), out(0), steps.contiguous(1), out(1), out(2), out(3), out(4),
                  steps.contiguous(6), steps.contiguous(7), steps.contiguous_or_none(8), call.op.real("beta1"),
                  call.op.real("beta2"), real(call, "eps"), real(call, "weight_decay"));
    steps.launch(launch);
    return steps.kernel();
  };
  return {prepare, any_layout};
}

// ---- single numbers ----

Launch scalar_launch(const KernelCall& call, const char* function, DType real_type) {
  Launch launch{"optimizer"};
  const DType step = call.arity() > 0 && is_integer(call.in(0).dtype) ? call.in(0).dtype : DType::i64;
  launch.defines.set("SCALARS").set("RATE", real_type).set("STEP", step);
  launch.function = function;
  launch.block = {1, 1};
  return launch;
}

Kernel next_step(const KernelCall& call) {
  Launch launch = scalar_launch(call, "next_step", DType::f32);
  launch.arguments = Arguments(out());
  return kernel_of({step(launch)});
}

Kernel loss_scale(const KernelCall& call) {
  Launch launch = scalar_launch(call, "loss_scale", DType::f32);
  launch.arguments = Arguments(in(0), out(), static_cast<int32_t>(program::kFirstLossScale));
  return kernel_of({step(launch)});
}

Kernel next_loss_scale(const KernelCall& call) {
  Launch launch = scalar_launch(call, "next_loss_scale", call.in(1).dtype);
  launch.arguments = Arguments(out(), in(1), static_cast<int64_t>(program::kLossScaleSteps));
  return kernel_of({step(launch)});
}

Kernel unscale(const KernelCall& call) {
  Launch launch = scalar_launch(call, "unscale", call.in(0).dtype);
  launch.arguments = Arguments(out(), in(0), in(1));
  return kernel_of({step(launch)});
}

Kernel clip_scale(const KernelCall& call) {
  Launch launch = scalar_launch(call, "clip_scale", call.in(0).dtype);
  launch.arguments = Arguments(out(), in(0), real(call, "max_norm"));
  return kernel_of({step(launch)});
}

// A sum of squares for each operand, and the root of their sum.
Kernel global_norm(const KernelCall& call) {
  Steps steps(call);
  const At sums = steps.scratch(call.arity() * 4);
  for (int i = 0; i < call.arity(); ++i) {
    cuda::reduce(steps, {call.in(i).dtype, in(i), {}, walk_of(call.in(i))}, {.map = "v * v"}, DType::f32,
                 sums + int64_t{4} * i);
  }
  Launch launch = scalar_launch(call, "root_of_sums", call.out().dtype);
  launch.block = {256, 1};
  launch.arguments = Arguments(static_cast<int64_t>(call.arity()), sums, out());
  steps.launch(launch);
  return steps.kernel();
}

// ---- accumulation ----

Kernel clear(const KernelCall& call) { return kernel_of({fill_bytes(out(), 0, call.out().bytes())}); }

}  // namespace

void register_optimizer_cuda(KernelTable& table) {
  table.add("dropout", {dropout, any_layout});
  table.add("sgd", {sgd, any_layout});
  table.add("momentum", {momentum, any_layout});
  table.add("lion", {lion, any_layout});
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
