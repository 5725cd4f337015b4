// Softmax and losses, by lines.
#include <fmt/format.h>

#include "plimsoll/kernels/cuda/support/sums.h"

namespace plimsoll::kernels {
namespace {

using namespace cuda;  // NOLINT: the whole file is of it

unsigned threads_for(int64_t n) { return n <= 64 ? 32 : n <= 256 ? 64 : n <= 2048 ? 128 : 256; }

KernelDef softmax(bool log, bool backward) {
  const auto prepare = [=](const KernelCall& call) {
    Steps steps(call);
    const At x = steps.contiguous(0);
    const At second = backward ? steps.contiguous(1) : none();
    const Around around(call.in(0).shape, call.op.axis("axis"));
    Launch launch{"softmax"};
    launch.defines.set("T", call.out().dtype);
    if (log) launch.defines.set("LOG");
    if (backward) launch.defines.set("BACKWARD");
    launch.grid = {around.outer * around.inner};
    launch.block = {threads_for(around.size), 1};
    launch.arguments = Arguments(around.size, around.inner, out(), x, second);
    steps.launch(launch);
    return steps.kernel();
  };
  return {prepare, any_layout};
}

// ---- cross entropy ----

Launch entropy_launch(const KernelCall& call, int logits, const char* function) {
  Launch launch{"cross_entropy"};
  launch.defines.set("T", call.in(logits).dtype).set("INDEX", call.in(logits + 1).dtype);
  launch.function = function;
  return launch;
}

Kernel cross_entropy(const KernelCall& call) {
  Steps steps(call);
  const At logits = steps.contiguous(0);
  const At targets = steps.contiguous(1);
  const Around around(call.in(0).shape, call.op.axis("axis"));
  const int64_t lines = around.outer * around.inner;
  const std::string& reduction = call.op.word("reduction");
  const bool each = reduction == "none";
  const At losses = each && call.produces(0) ? out() : steps.scratch(lines * 4);
  const int64_t ignored = call.op.integer("ignored_index");
  Launch rows = entropy_launch(call, 0, "forward");
  rows.grid = {lines};
  rows.block = {threads_for(around.size), 1};
  rows.arguments = Arguments(around.size, around.inner, logits, targets, losses, steps.wanted(1), ignored,
                             static_cast<float>(call.op.real("label_smoothing")), FaultOf{1});
  steps.launch(rows);
  if (!each && call.produces(0)) {
    Launch finish = entropy_launch(call, 0, "finish");
    finish.block = {1024, 1};
    finish.arguments = Arguments(lines, losses, targets, ignored, int32_t{reduction == "mean"}, out(), none());
    steps.launch(finish);
  }
  return steps.kernel();
}

Kernel cross_entropy_backward(const KernelCall& call) {
  Steps steps(call);
  const At dloss = steps.contiguous(0);
  const At logits = steps.contiguous(1);
  const At targets = steps.contiguous(2);
  const At lse = steps.contiguous(3);
  const Around around(call.in(1).shape, call.op.axis("axis", 1));
  const int64_t lines = around.outer * around.inner;
  const std::string& reduction = call.op.word("reduction");
  const int64_t ignored = call.op.integer("ignored_index");
  At counted = none();
  if (reduction == "mean") {
    counted = steps.scratch(4);
    Launch count = entropy_launch(call, 1, "finish");
    count.block = {1024, 1};
    count.arguments = Arguments(lines, none(), targets, ignored, int32_t{1}, none(), counted);
    steps.launch(count);
  }
  Launch rows = entropy_launch(call, 1, "backward");
  rows.grid = {lines};
  rows.block = {threads_for(around.size), 1};
  rows.arguments = Arguments(around.size, around.inner, out(), dloss, int32_t{reduction == "none"}, logits, targets,
                             lse, counted, ignored, static_cast<float>(call.op.real("label_smoothing")));
  steps.launch(rows);
  return steps.kernel();
}

// ---- element by element ----

struct Pointwise {
  const char* op;
  const char* loss;
  const char* slope;
  const char* target_slope;
};

constexpr Pointwise kLosses[] = {
    {"mse_loss", "(x - t) * (x - t)", "2 * (x - t)", "2 * (t - x)"},
    {"l1_loss", "fabsf(x - t)", "sign(x - t)", "sign(t - x)"},
    {"huber_loss", "huber(x - t, p0)", "clamped(x - t, -p0, p0)", "clamped(t - x, -p0, p0)"},
    {"bce_loss", "-t * held_log(x) - (1 - t) * held_log(1 - x)", "(x - t) / fmaxf(x * (1 - x), 1e-12f)",
     "held_log(1 - x) - held_log(x)"},
    {"bce_with_logits_loss", "fmaxf(x, 0.0f) - x * t + log1pf(expf(-fabsf(x)))", "sigmoid(x) - t", "-x"},
};

float delta_of(const KernelCall& call) {
  return call.op.def.name.starts_with("huber") ? static_cast<float>(call.op.real("delta")) : 0;
}

Launch loss_launch(const Pointwise& kind, DType dtype, const char* slope, const char* function) {
  Launch launch{"loss"};
  launch.defines.set("T", dtype).set("LOSS", kind.loss).set("SLOPE", slope);
  launch.function = function;
  return launch;
}

Kernel pointwise(const KernelCall& call, const Pointwise& kind) {
  Steps steps(call);
  const At x = steps.contiguous(0);
  const At target = steps.contiguous(1);
  const int64_t n = call.in(0).elements();
  const DType dtype = call.in(0).dtype;
  const std::string& reduction = call.op.word("reduction");
  if (reduction == "none") {
    Launch each = loss_launch(kind, dtype, kind.slope, "each");
    each.grid = {blocks_for(n)};
    each.arguments = Arguments(n, out(), x, target, delta_of(call));
    steps.launch(each);
    return steps.kernel();
  }
  const int64_t parts = parts_of(n, 528, 256);
  const At partial = steps.scratch(parts * 4);
  Launch sums = loss_launch(kind, dtype, kind.slope, "parts");
  sums.grid = {parts};
  sums.arguments = Arguments(n, partial, x, target, delta_of(call));
  steps.launch(sums);
  Launch finish = loss_launch(kind, dtype, kind.slope, "finish");
  finish.arguments = Arguments(parts, partial, out(), reduction == "mean" ? static_cast<float>(n) : 1.0F);
  steps.launch(finish);
  return steps.kernel();
}

Kernel pointwise_backward(const KernelCall& call, const Pointwise& kind) {
  Steps steps(call);
  const At dloss = steps.contiguous(0);
  const At x = steps.contiguous(1);
  const At target = steps.contiguous(2);
  const int64_t n = call.in(1).elements();
  const std::string& reduction = call.op.word("reduction");
  Launch launch =
      loss_launch(kind, call.in(1).dtype, call.op.integer("operand") == 0 ? kind.slope : kind.target_slope, "backward");
  launch.grid = {blocks_for(n)};
  launch.arguments = Arguments(n, out(), dloss, int32_t{reduction == "none"}, x, target,
                               reduction == "mean" ? static_cast<float>(n) : 1.0F, delta_of(call));
  steps.launch(launch);
  return steps.kernel();
}

}  // namespace

void register_softmax_cuda(KernelTable& table) {
  for (const bool log : {false, true}) {
    const std::string name = log ? "log_softmax" : "softmax";
    table.add(name, softmax(log, false));
    table.add(name + "_backward", softmax(log, true));
  }
  table.add("cross_entropy", {cross_entropy, any_layout});
  table.add("cross_entropy_backward", {cross_entropy_backward, any_layout});
  for (const Pointwise& kind : kLosses) {
    table.add(kind.op, {[&kind](const KernelCall& call) { return pointwise(call, kind); }, any_layout});
    table.add(std::string(kind.op) + "_backward",
              {[&kind](const KernelCall& call) { return pointwise_backward(call, kind); }, any_layout});
  }
}

}  // namespace plimsoll::kernels
