// Batch normalisation with the ReLU that follows it, plainly: only devices that gain by it have their programs
// rewritten to these ops.
#include <algorithm>
#include <cmath>

#include "plimsoll/base/bytes.h"
#include "plimsoll/kernels/device.h"

namespace plimsoll::kernels {
namespace {

float* floats(std::byte* at) { return reinterpret_cast<float*>(at); }

// Bytes of a scratch for one tensor, then whatever the normalisation wants.
int64_t room_of(const TensorDesc& tensor) { return align_up(tensor.bytes(), kAlignment); }

KernelCall norm_call(const KernelCall& call, const program::OpCall& norm) {
  return {.op = norm, .inputs = {}, .outputs = {}, .requested = {}, .threads = call.threads};
}

// [samples, channels, plane].
struct Planes {
  int64_t samples, channels, plane;
  explicit Planes(const TensorDesc& x)
      : samples(x.shape[0]), channels(x.shape[1]), plane(x.elements() / (x.shape[0] * x.shape[1])) {}
};

// Mean and variance of a channel.
std::pair<double, double> moments(const float* x, const Planes& planes, int64_t channel) {
  const double count = static_cast<double>(planes.samples * planes.plane);
  const auto sum_of = [&](auto&& value) {
    double sum = 0;
    for (int64_t n = 0; n < planes.samples; ++n) {
      const float* const plane = x + (n * planes.channels + channel) * planes.plane;
      for (int64_t i = 0; i < planes.plane; ++i) sum += value(plane[i]);
    }
    return sum;
  };
  const double mean = sum_of([](float v) { return static_cast<double>(v); }) / count;
  return {mean, sum_of([&](float v) { return (v - mean) * (v - mean); }) / count};
}

Kernel statistics(const KernelCall& call) {
  const Planes planes(call.in(0));
  const double eps = call.op.real("eps");
  return {0, [=](const Memory& memory) -> Task {
            const auto result = [&](size_t k) {
              return k < memory.outputs.size() ? floats(memory.outputs[k]) : nullptr;
            };
            return [=, x = floats(memory.inputs[0]), mean = result(0), rstd = result(1), variance = result(2)] {
              for (int64_t c = 0; c < planes.channels; ++c) {
                const auto [m, v] = moments(x, planes, c);
                mean[c] = static_cast<float>(m);
                if (rstd != nullptr) rstd[c] = static_cast<float>(1 / std::sqrt(v + eps));
                if (variance != nullptr) variance[c] = static_cast<float>(v);
              }
            };
          }};
}

// y = relu(scale * x + shift + residual) by channels; the mask has a bit for each element above zero.
struct Applied {
  const float *x, *mean, *rstd, *weight, *bias, *residual;
  float* y;
  uint8_t* mask;

  void run(const Planes& planes) const {
    const int64_t count = planes.samples * planes.channels * planes.plane;
    for (int64_t i = 0; i < count; ++i) {
      const int64_t c = i / planes.plane % planes.channels;
      const float scale = rstd[c] * weight[c];
      const float sum = x[i] * scale + (bias[c] - mean[c] * scale) + (residual != nullptr ? residual[i] : 0);
      if (mask != nullptr && i % 8 == 0) mask[i / 8] = 0;
      if (mask != nullptr && sum > 0) mask[i / 8] = static_cast<uint8_t>(mask[i / 8] | 1U << (i % 8));
      y[i] = sum <= 0 ? 0 : sum;
    }
  }
};

Kernel forward(const KernelCall& call) {
  return {0, [planes = Planes(call.in(0))](const Memory& memory) -> Task {
            const auto in = [&](size_t i) { return i < memory.inputs.size() ? floats(memory.inputs[i]) : nullptr; };
            std::byte* const mask = memory.outputs.size() > 1 ? memory.outputs[1] : nullptr;
            const Applied applied{
                in(0), in(1), in(2), in(3), in(4), in(5), floats(memory.outputs[0]), reinterpret_cast<uint8_t*>(mask)};
            return [=] { applied.run(planes); };
          }};
}

void keep_set(const float* dy, const uint8_t* mask, float* kept, int64_t count) {
  for (int64_t i = 0; i < count; ++i) kept[i] = (mask[i / 8] >> (i % 8) & 1) != 0 ? dy[i] : 0;
}

Kernel backward(const KernelCall& call) {
  std::vector<program::Type> types = {call.op.inputs[0]};
  types.insert(types.end(), call.op.inputs.begin() + 2, call.op.inputs.end());
  const program::OpCall norm{program::op_table().get("batch_norm_backward"), types, call.op.attributes,
                             call.op.outputs.first(3), call.op.label};
  KernelCall alone = norm_call(call, norm);
  alone.inputs = {call.in(0), call.in(2), call.in(3), call.in(4), call.in(5)};
  alone.outputs.assign(call.outputs.begin(), call.outputs.begin() + 3);
  alone.requested = {call.produces(0), call.produces(1), call.produces(2)};
  const Kernel inner = cpu_kernels().find("batch_norm_backward")->prepare(alone);
  const int64_t room = room_of(call.in(0));
  const int64_t count = call.in(0).elements();
  return {room + inner.scratch_bytes, [=](const Memory& memory) -> Task {
            Memory own = memory;
            own.inputs = {memory.scratch, memory.inputs[2], memory.inputs[3], memory.inputs[4], memory.inputs[5]};
            own.outputs.resize(3);
            own.scratch = memory.scratch + room;
            const Task rest = inner.bind(own);
            return [=, dy = memory.inputs[0], mask = memory.inputs[1], kept = memory.scratch,
                    residual = memory.outputs.size() > 3 ? memory.outputs[3] : nullptr] {
              keep_set(floats(dy), reinterpret_cast<const uint8_t*>(mask), floats(kept), count);
              if (residual != nullptr) std::copy_n(kept, count * sizeof(float), residual);
              rest();
            };
          }};
}

}  // namespace

void register_norm_relu_cpu(KernelTable& table) {
  table.add("batch_norm_statistics", {statistics});
  table.add("batch_norm_relu", {forward});
  table.add("batch_norm_relu_backward", {backward});
}

}  // namespace plimsoll::kernels
