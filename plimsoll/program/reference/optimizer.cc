#include "plimsoll/program/ops/optimizer.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "plimsoll/program/evaluate.h"

namespace plimsoll::program {
namespace {

// The number that operand i holds, or 1 where it is left out.
template <class T>
T scalar_or_one(const Run<T>& run, int i) {
  return i < run.arity() ? run.reals(i)[0] : 1;
}

// An update by gradients of no size leaves everything as it was: results 0, 1, 2 are operands 0, 2, 3.
template <class T>
bool skips(Run<T>& run, T scale, int results) {
  if (!std::isnan(scale)) return false;
  for (int k = 0; k < results; ++k) run.out(k).reals = run.reals(k == 0 ? 0 : k + 1);
  return true;
}

template <class T>
void sgd(Run<T>& run) {
  const auto& w = run.reals(0);
  const auto& dw = run.reals(1);
  const T rate = run.reals(2)[0];
  const T scale = scalar_or_one(run, 3);
  if (skips(run, scale, 1)) return;
  const auto decay = static_cast<T>(run.call.real("weight_decay"));
  for (size_t i = 0; i < w.size(); ++i) run.out().reals[i] = w[i] - rate * (scale * dw[i] + decay * w[i]);
}

template <class T>
void momentum(Run<T>& run) {
  const auto& w = run.reals(0);
  const auto& dw = run.reals(1);
  const T rate = run.reals(3)[0];
  const T scale = scalar_or_one(run, 4);
  if (skips(run, scale, 2)) return;
  const auto decay = static_cast<T>(run.call.real("weight_decay"));
  const auto keep = static_cast<T>(run.call.real("momentum"));
  for (size_t i = 0; i < w.size(); ++i) {
    const T gradient = scale * dw[i] + decay * w[i];
    T& velocity = run.out(1).reals[i];
    velocity = keep * run.reals(2)[i] + gradient;
    run.out().reals[i] = w[i] - rate * (run.call.flag("nesterov") ? gradient + keep * velocity : velocity);
  }
}

template <class T>
void lion(Run<T>& run) {
  const auto& w = run.reals(0);
  const T rate = run.reals(3)[0];
  const T scale = scalar_or_one(run, 4);
  if (skips(run, scale, 2)) return;
  const auto beta1 = static_cast<T>(run.call.real("beta1"));
  const auto beta2 = static_cast<T>(run.call.real("beta2"));
  const auto decay = static_cast<T>(run.call.real("weight_decay"));
  for (size_t i = 0; i < w.size(); ++i) {
    const T gradient = scale * run.reals(1)[i];
    const T mean = run.reals(2)[i];
    const T direction = beta1 * mean + (1 - beta1) * gradient;
    const T sign = direction > 0 ? T{1} : direction < 0 ? T{-1} : T{0};
    run.out().reals[i] = w[i] * (1 - rate * decay) - rate * sign;
    run.out(1).reals[i] = beta2 * mean + (1 - beta2) * gradient;
  }
}

template <class T>
void adam(Run<T>& run, bool decoupled) {
  const auto& w = run.reals(0);
  const auto& dw = run.reals(1);
  const T rate = run.reals(5)[0];
  const T scale = scalar_or_one(run, 6);
  if (skips(run, scale, 3)) return;
  const auto step = static_cast<double>(run.ints(4)[0]);
  const double beta1 = run.call.real("beta1");
  const double beta2 = run.call.real("beta2");
  const auto decay = static_cast<T>(run.call.real("weight_decay"));
  const auto eps = static_cast<T>(run.call.real("eps"));
  const auto mean_share = static_cast<T>(1 - std::pow(beta1, step));  // how much of the true mean is there so far
  const auto square_share = static_cast<T>(1 - std::pow(beta2, step));
  for (size_t i = 0; i < w.size(); ++i) {
    const T gradient = scale * dw[i] + (decoupled ? 0 : decay * w[i]);
    T& mean = run.out(1).reals[i];
    T& square = run.out(2).reals[i];
    mean = static_cast<T>(beta1) * run.reals(2)[i] + static_cast<T>(1 - beta1) * gradient;
    square = static_cast<T>(beta2) * run.reals(3)[i] + static_cast<T>(1 - beta2) * gradient * gradient;
    const T kept = decoupled ? w[i] * (1 - rate * decay) : w[i];
    run.out().reals[i] = kept - rate * (mean / mean_share) / (std::sqrt(square / square_share) + eps);
  }
}

template <class T>
void global_norm(Run<T>& run) {
  T sum = 0;
  for (int i = 0; i < run.arity(); ++i) {
    for (const T x : run.reals(i)) sum += x * x;
  }
  run.out().reals[0] = std::sqrt(sum);
}

template <class T>
void next_loss_scale(Run<T>& run) {
  const int64_t power = run.ints(0)[0];
  const int64_t steps = run.ints(0)[1] + 1;
  if (!std::isfinite(run.reals(1)[0])) {
    run.out().ints = {power - 1, 0};
  } else if (steps == kLossScaleSteps) {
    run.out().ints = {power + 1, 0};
  } else {
    run.out().ints = {power, steps};
  }
}

template <class T>
void unscale(Run<T>& run) {
  const bool finite = std::isfinite(run.reals(1)[0]);
  run.out().reals[0] = finite ? 1 / run.reals(0)[0] : std::numeric_limits<T>::quiet_NaN();
}

template <class T>
void clip_scale(Run<T>& run) {
  constexpr T kEpsilon = 1e-6;  // as PyTorch has it: a norm of zero divides
  run.out().reals[0] = std::min<T>(1, static_cast<T>(run.call.real("max_norm")) / (run.reals(0)[0] + kEpsilon));
}

}  // namespace

void register_optimizer_reference(OpTable& table) {
  table.reference("sgd", [](auto& run) { sgd(run); });
  table.reference("momentum", [](auto& run) { momentum(run); });
  table.reference("adam", [](auto& run) { adam(run, false); });
  table.reference("adamw", [](auto& run) { adam(run, true); });
  table.reference("lion", [](auto& run) { lion(run); });
  table.reference("next_step", [](auto& run) { run.out().ints[0] = run.ints(0)[0] + 1; });
  table.reference("global_norm", [](auto& run) { global_norm(run); });
  table.reference("loss_scale", [](auto& run) {
    run.out().reals[0] = std::ldexp(1.0F, static_cast<int>(kFirstLossScale + run.ints(0)[0]));
  });
  table.reference("next_loss_scale", [](auto& run) { next_loss_scale(run); });
  table.reference("unscale", [](auto& run) { unscale(run); });
  table.reference("clip_scale", [](auto& run) { clip_scale(run); });
}

}  // namespace plimsoll::program
