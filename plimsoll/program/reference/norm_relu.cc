#include <cmath>

#include "plimsoll/program/evaluate.h"

namespace plimsoll::program {
namespace {

void run_norm(Run<double>& norm) { norm.call.def.reference_f64(norm); }
void run_norm(Run<float>& norm) { norm.call.def.reference_f32(norm); }

bool bit_of(const std::vector<int64_t>& mask, size_t i) { return (mask[i / 8] >> (i % 8) & 1) != 0; }

// Elements of x by their channels: [samples, channels, plane].
template <class T>
struct Planes {
  size_t samples, channels, plane;
  explicit Planes(const Array<T>& x)
      : samples(static_cast<size_t>(x.shape[0])),
        channels(static_cast<size_t>(x.shape[1])),
        plane(x.reals.empty() ? 0 : x.reals.size() / (samples * channels)) {}
  size_t channel_of(size_t i) const { return i / plane % channels; }
};

template <class T>
void statistics(Run<T>& run) {
  const Planes<T> planes(run.in(0));
  const std::vector<T>& x = run.reals(0);
  std::vector<T> mean(planes.channels);
  std::vector<T> variance(planes.channels);
  const T count = static_cast<T>(planes.samples * planes.plane);
  for (size_t i = 0; i < x.size(); ++i) mean[planes.channel_of(i)] += x[i] / count;
  for (size_t i = 0; i < x.size(); ++i) {
    const T distance = x[i] - mean[planes.channel_of(i)];
    variance[planes.channel_of(i)] += distance * distance / count;
  }
  const T eps = static_cast<T>(run.call.real("eps"));
  for (size_t c = 0; c < planes.channels && run.wants(1); ++c) run.out(1).reals[c] = 1 / std::sqrt(variance[c] + eps);
  if (run.wants(2)) run.out(2).reals = variance;
  run.out(0).reals = std::move(mean);
}

template <class T>
void forward(Run<T>& run) {
  const Planes<T> planes(run.in(0));
  std::vector<T>& y = run.out().reals;
  for (size_t i = 0; i < y.size(); ++i) {
    const size_t c = planes.channel_of(i);
    y[i] = (run.reals(0)[i] - run.reals(1)[c]) * run.reals(2)[c] * run.reals(3)[c] + run.reals(4)[c];
    if (run.arity() > 5) y[i] += run.reals(5)[i];
    if (y[i] <= 0) y[i] = 0;
    if (run.wants(1) && y[i] > 0) run.out(1).ints[i / 8] |= 1 << (i % 8);
  }
}

template <class T>
void backward(Run<T>& run) {
  const OpCall& call = run.call;
  Array<T> slope = run.in(0);
  for (size_t i = 0; i < slope.reals.size(); ++i) {
    if (!bit_of(run.ints(1), i)) slope.reals[i] = 0;
  }
  const std::vector<const Array<T>*> operands = {&slope, &run.in(2), &run.in(3), &run.in(4), &run.in(5)};
  std::vector<Type> types = {call.inputs[0]};
  types.insert(types.end(), call.inputs.begin() + 2, call.inputs.end());
  const OpCall norm{op_table().get("batch_norm_backward"), types, call.attributes, call.outputs.first(3), call.label};
  Run<T> inner{norm, operands, run.outputs.first(3), {true, run.wants(1), run.wants(2)}};
  run_norm(inner);
  if (run.wants(3)) run.out(3).reals = slope.reals;
}

}  // namespace

void register_norm_relu_reference(OpTable& table) {
  table.reference("batch_norm_statistics", [](auto& run) { statistics(run); });
  table.reference("batch_norm_relu", [](auto& run) { forward(run); });
  table.reference("batch_norm_relu_backward", [](auto& run) { backward(run); });
}

}  // namespace plimsoll::program
