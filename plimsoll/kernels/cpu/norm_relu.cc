// Batch normalisation with the ReLU that follows it: the normalisation, then a pass over its result. Only devices that
// gain by it have their programs rewritten to these ops.
#include <algorithm>

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

void cut(const float* x, const float* residual, float* y, uint8_t* mask, int64_t count) {
  for (int64_t i = 0; i < count; ++i) {
    const float sum = residual != nullptr ? x[i] + residual[i] : x[i];
    if (mask != nullptr && i % 8 == 0) mask[i / 8] = 0;
    if (mask != nullptr && sum > 0) mask[i / 8] = static_cast<uint8_t>(mask[i / 8] | 1U << (i % 8));
    y[i] = sum <= 0 ? 0 : sum;
  }
}

Kernel forward(const KernelCall& call) {
  const program::OpCall norm{program::op_table().get("batch_norm"), call.op.inputs.first(3), call.op.attributes,
                             call.op.outputs.first(4), call.op.label};
  KernelCall alone = norm_call(call, norm);
  alone.inputs = {call.in(0), call.in(1), call.in(2)};
  alone.outputs.assign(call.outputs.begin(), call.outputs.begin() + 4);
  alone.requested = {true, call.produces(1), call.produces(2), call.produces(3)};
  const Kernel inner = cpu_kernels().find("batch_norm")->prepare(alone);
  const int64_t room = room_of(call.in(0));
  const int64_t count = call.in(0).elements();
  return {room + inner.scratch_bytes, [=](const Memory& memory) -> Task {
            Memory own = memory;
            own.inputs.resize(3);
            own.outputs.resize(4);
            own.outputs[0] = memory.scratch;
            own.scratch = memory.scratch + room;
            const Task first = inner.bind(own);
            return [=, x = memory.scratch, y = memory.outputs[0],
                    residual = memory.inputs.size() > 3 ? memory.inputs[3] : nullptr,
                    mask = memory.outputs.size() > 4 ? memory.outputs[4] : nullptr] {
              first();
              cut(floats(x), floats(residual), floats(y), reinterpret_cast<uint8_t*>(mask), count);
            };
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
  table.add("batch_norm_relu", {forward});
  table.add("batch_norm_relu_backward", {backward});
}

}  // namespace plimsoll::kernels
