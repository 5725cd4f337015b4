#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "plimsoll/program/evaluate.h"
#include "plimsoll/program/reference/exp_sum.h"
#include "plimsoll/program/reference/index.h"

namespace plimsoll::program {
namespace {

// ---- cross entropy ----

// The target's share of each class: 1 for the right one, less what smoothing spreads over all.
struct Share {
  double smoothing;
  size_t classes;

  double of(size_t i, size_t target) const {
    return (i == target ? 1 - smoothing : 0) + smoothing / static_cast<double>(classes);
  }
};

using Places = std::vector<size_t>;  // of the logits along a line

// Calls visit(line, place, target) for every line whose target is not ignored; returns how many there are.
template <class T, class F>
int64_t for_each_target(const Run<T>& run, int logits, F visit) {
  const auto& targets = run.ints(logits + 1);
  const int64_t ignored = run.call.integer("ignored_index");
  int64_t count = 0;
  const auto lines = groups(run.shape(logits), AxisSet().set(static_cast<size_t>(run.call.axis("axis", logits))));
  for (size_t place = 0; place < lines.size(); ++place) {
    const Places& line = lines[place];
    const int64_t target = targets[place];
    if (target == ignored) continue;
    if (target < 0 || target >= std::ssize(line)) {
      run.call.reject(fmt::format("target {} at place {} is no class: expected 0 to {}, or {} to ignore it", target,
                                  place, std::ssize(line) - 1, ignored));
    }
    ++count;
    visit(line, place, static_cast<size_t>(target));
  }
  return count;
}

template <class T>
void cross_entropy(Run<T>& run) {
  const auto& logits = run.reals(0);
  auto& loss = run.out().reals;
  const bool each = run.call.word("reduction") == "none";
  const int64_t count = for_each_target(run, 0, [&](const Places& line, size_t place, size_t target) {
    const Share share{run.call.real("label_smoothing"), line.size()};
    const T lse = log_sum_exp(logits, line);
    T sum = 0;
    for (size_t i = 0; i < line.size(); ++i) {
      const auto part = static_cast<T>(share.of(i, target));
      if (part != 0) sum += part * (lse - logits[line[i]]);  // a logit of minus infinity may have no share
    }
    loss[each ? place : 0] += sum;
    if (run.wants(1)) run.out(1).reals[place] = lse;
  });
  if (run.call.word("reduction") == "mean") loss[0] /= static_cast<T>(count);
}

template <class T>
void cross_entropy_backward(Run<T>& run) {
  const auto& dloss = run.reals(0);
  const auto& logits = run.reals(1);
  const auto& lse = run.reals(3);
  const std::string& reduction = run.call.word("reduction");
  const int64_t count = for_each_target(run, 1, [](const Places&, size_t, size_t) {});
  for_each_target(run, 1, [&](const Places& line, size_t place, size_t target) {
    const Share share{run.call.real("label_smoothing"), line.size()};
    const T slope = dloss[reduction == "none" ? place : 0] / static_cast<T>(reduction == "mean" ? count : 1);
    for (size_t i = 0; i < line.size(); ++i) {
      const T probability = std::exp(logits[line[i]] - lse[place]);
      run.out().reals[line[i]] = slope * (probability - static_cast<T>(share.of(i, target)));
    }
  });
}

// ---- element by element ----

template <class T, class F>
void pointwise(Run<T>& run, F loss_of) {
  const auto& x = run.reals(0);
  const auto& target = run.reals(1);
  auto& loss = run.out().reals;
  const bool each = run.call.word("reduction") == "none";
  for (size_t i = 0; i < x.size(); ++i) loss[each ? i : 0] += loss_of(x[i], target[i], run.call);
  if (run.call.word("reduction") == "mean") loss[0] /= static_cast<T>(x.size());
}

template <class T, class F>
void pointwise_backward(Run<T>& run, F slope_of) {
  const auto& dloss = run.reals(0);
  const auto& x = run.reals(1);
  const auto& target = run.reals(2);
  const std::string& reduction = run.call.word("reduction");
  const auto parts = static_cast<T>(reduction == "mean" ? x.size() : 1);
  for (size_t i = 0; i < x.size(); ++i) {
    run.out().reals[i] = slope_of(x[i], target[i], run.call) * dloss[reduction == "none" ? i : 0] / parts;
  }
}

// A loss with its slopes along x and along the target, each a function of (x, target, call).
template <class F, class DX, class DT>
void add_pointwise(OpTable& table, const std::string& name, F loss, DX slope, DT target_slope) {
  table.reference(name, [loss](auto& run) { pointwise(run, loss); });
  table.reference(name + "_backward", [slope, target_slope](auto& run) {
    if (run.call.integer("operand") == 0) {
      pointwise_backward(run, slope);
    } else {
      pointwise_backward(run, target_slope);
    }
  });
}

// For a loss that is a function of the distance x - target: the target's slope is the opposite of x's.
template <class F, class D>
void add_distance(OpTable& table, const std::string& name, F loss, D slope) {
  add_pointwise(
      table, name, [loss](auto x, auto t, const OpCall& call) { return loss(x - t, call); },
      [slope](auto x, auto t, const OpCall& call) { return slope(x - t, call); },
      [slope](auto x, auto t, const OpCall& call) { return -slope(x - t, call); });
}

template <class T>
T sign(T x) {
  return static_cast<T>((x > 0) - (x < 0));
}

template <class T>
T delta_of(const OpCall& call) {
  return static_cast<T>(call.real("delta"));
}

template <class T>
T huber(T distance, T delta) {
  const T size = std::abs(distance);
  return size <= delta ? distance * distance / 2 : delta * (size - delta / 2);
}

template <class T>
T held_log(T x) {
  return std::max(std::log(x), T{-100});
}

void register_distances(OpTable& table) {
  add_distance(
      table, "mse_loss", [](auto d, const OpCall&) { return d * d; }, [](auto d, const OpCall&) { return 2 * d; });
  add_distance(
      table, "l1_loss", [](auto d, const OpCall&) { return std::abs(d); },
      [](auto d, const OpCall&) { return sign(d); });
  add_distance(
      table, "huber_loss", [](auto d, const OpCall& call) { return huber(d, delta_of<decltype(d)>(call)); },
      [](auto d, const OpCall& call) {
        const auto delta = delta_of<decltype(d)>(call);
        return std::clamp(d, -delta, delta);
      });
}

void register_binary(OpTable& table) {
  add_pointwise(
      table, "bce_loss", [](auto p, auto t, const OpCall&) { return -t * held_log(p) - (1 - t) * held_log(1 - p); },
      [](auto p, auto t, const OpCall&) { return (p - t) / std::max<decltype(p)>(p * (1 - p), 1e-12F); },
      [](auto p, auto, const OpCall&) { return held_log(1 - p) - held_log(p); });
  add_pointwise(
      table, "bce_with_logits_loss",
      [](auto x, auto t, const OpCall&) {
        return std::max<decltype(x)>(x, 0) - x * t + std::log1p(std::exp(-std::abs(x)));
      },
      [](auto x, auto t, const OpCall&) { return 1 / (1 + std::exp(-x)) - t; },
      [](auto x, auto, const OpCall&) { return -x; });
}

}  // namespace

void register_loss_reference(OpTable& table) {
  table.reference("cross_entropy", [](auto& run) { cross_entropy(run); });
  table.reference("cross_entropy_backward", [](auto& run) { cross_entropy_backward(run); });
  register_distances(table);
  register_binary(table);
}

}  // namespace plimsoll::program
