// Losses element by element.
#include <algorithm>
#include <cmath>

#include "plimsoll/base/bytes.h"
#include "plimsoll/kernels/cpu/support/sums.h"
#include "plimsoll/kernels/kernel.h"

namespace plimsoll::kernels {
namespace {

using program::OpCall;

struct Reduction {
  bool each;
  bool mean;
  explicit Reduction(const OpCall& op_call)
      : each(op_call.word("reduction") == "none"), mean(op_call.word("reduction") == "mean") {}
};

// loss = f(x, target), summed over parts in scratch
template <class F>
Kernel loss_kernel(const KernelCall& call, F f) {
  call.require_f32(0);
  const Reduction reduction(call.op);
  const int64_t count = call.in(0).elements();
  return {align_up(kSumParts * 8, kAlignment), [=, threads = call.threads](const Memory& m) -> Task {
            return [=, x = m.in<float>(0), target = m.in<float>(1), loss = m.out<float>(),
                    partial = m.scratch_at<double>(0)] {
              parallel_sums(threads, count, kGrain, [&](int part, int, int64_t begin, int64_t end) {
                double sum = 0;
                for (int64_t i = begin; i < end; ++i) {
                  const float one = f(x[i], target[i]);
                  if (reduction.each) loss[i] = one;
                  sum += static_cast<double>(one);
                }
                partial[part] = sum;
              });
              if (reduction.each) return;
              double total = 0;
              for (int part = 0; part < sum_parts(count, kGrain); ++part) total += partial[part];
              *loss = static_cast<float>(reduction.mean ? total / static_cast<double>(count) : total);
            };
          }};
}

template <class F>
Kernel slope_kernel(const KernelCall& call, F slope) {
  for (int i = 0; i < 3; ++i) call.require_f32(i);
  const Reduction reduction(call.op);
  const int64_t count = call.out().elements();
  const float divisor = reduction.mean ? static_cast<float>(count) : 1;
  return plain([=, threads = call.threads](const Memory& m) -> Task {
    return [=, dloss = m.in<float>(0), x = m.in<float>(1), target = m.in<float>(2), dx = m.out<float>()] {
      parallel(threads, count, kGrain, [=](int, int64_t begin, int64_t end) {
        for (int64_t i = begin; i < end; ++i) {
          dx[i] = slope(x[i], target[i]) * dloss[reduction.each ? i : 0] / divisor;
        }
      });
    };
  });
}

// A loss with its slopes along x and along the target.
template <class F, class DX, class DT>
void add_loss(KernelTable& table, const std::string& op, F loss, DX slope, DT target_slope) {
  table.add(op, {[=](const KernelCall& call) { return loss_kernel(call, loss); }});
  table.add(op + "_backward", {[=](const KernelCall& call) {
              return call.op.integer("operand") == 0 ? slope_kernel(call, slope) : slope_kernel(call, target_slope);
            }});
}

// For a loss that is a function of the distance x - target.
template <class F, class D>
void add_distance(KernelTable& table, const std::string& op, F loss, D slope) {
  add_loss(
      table, op, [=](float x, float t) { return loss(x - t); }, [=](float x, float t) { return slope(x - t); },
      [=](float x, float t) { return -slope(x - t); });
}

float delta_of(const KernelCall& call) { return static_cast<float>(call.op.real("delta")); }

float huber(float distance, float delta) {
  const float size = std::abs(distance);
  return size <= delta ? distance * distance / 2 : delta * (size - delta / 2);
}

void add_huber(KernelTable& table) {
  table.add("huber_loss", {[](const KernelCall& call) {
              return loss_kernel(call, [delta = delta_of(call)](float x, float t) { return huber(x - t, delta); });
            }});
  table.add("huber_loss_backward", {[](const KernelCall& call) {
              const float sign = call.op.integer("operand") == 0 ? 1 : -1;
              return slope_kernel(call, [sign, delta = delta_of(call)](float x, float t) {
                return sign * std::clamp(x - t, -delta, delta);
              });
            }});
}

float held_log(float x) { return std::max(std::log(x), -100.0F); }

}  // namespace

void register_loss_cpu(KernelTable& table) {
  add_distance(
      table, "mse_loss", [](float d) { return d * d; }, [](float d) { return 2 * d; });
  add_distance(
      table, "l1_loss", [](float d) { return std::abs(d); },
      [](float d) { return static_cast<float>((d > 0) - (d < 0)); });
  add_huber(table);
  add_loss(
      table, "bce_loss", [](float p, float t) { return -t * held_log(p) - (1 - t) * held_log(1 - p); },
      [](float p, float t) { return (p - t) / std::max(p * (1 - p), 1e-12F); },
      [](float p, float) { return held_log(1 - p) - held_log(p); });
  add_loss(
      table, "bce_with_logits_loss",
      [](float x, float t) { return std::max(x, 0.0F) - x * t + std::log1p(std::exp(-std::abs(x))); },
      [](float x, float t) { return 1 / (1 + std::exp(-x)) - t; }, [](float x, float) { return -x; });
}

}  // namespace plimsoll::kernels
