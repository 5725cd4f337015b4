// y = x w' + bias over rows: products of matrices.
#include <algorithm>

#include "plimsoll/base/bytes.h"
#include "plimsoll/kernels/cpu/support/dnnl.h"
#include "plimsoll/kernels/cpu/support/packed_product.h"
#include "plimsoll/kernels/cpu/support/product.h"
#include "plimsoll/kernels/cpu/support/sums.h"
#include "plimsoll/kernels/tiling.h"

namespace plimsoll::kernels {
namespace {

// [.., n] as a matrix of n columns.
TensorDesc rows_of(const TensorDesc& tensor) {
  const int64_t columns = tensor.shape[tensor.shape.rank() - 1];
  return contiguous(tensor.dtype, {columns == 0 ? 0 : tensor.elements() / columns, columns});
}

// The products of the three ops.
Product forward_product(const KernelCall& call) {
  return {.a = rows_of(call.in(0)),
          .b = transposed(call.in(1)),
          .y = rows_of(call.out()),
          .bias = call.arity() > 2 ? &call.in(2) : nullptr};
}
Product input_product(const KernelCall& call) {
  return {.a = rows_of(call.in(0)), .b = call.in(1), .y = rows_of(call.out())};
}
Product weights_product(const KernelCall& call) {
  return {.a = transposed(rows_of(call.in(0))), .b = rows_of(call.in(1)), .y = call.out()};
}

// ---- a part of the outputs at a time ----

// In f16 and bf16, where the weights are more than all that goes through them: then only parts of them are widened.
bool has_heavy_weights(const KernelCall& call) {
  const int64_t through = std::max(call.in(0).elements(), call.out().elements());
  return through > 0 && is_low_precision(call.in(1).dtype) && call.in(1).elements() > 2 * through;
}

constexpr int64_t kPart = 1 << 18;  // weights

struct Outputs {
  int64_t rows, ins, all;
  int64_t size;  // of all parts but the last

  explicit Outputs(const KernelCall& call)
      : rows(rows_of(call.out()).shape[0]),
        ins(call.in(1).shape[1]),
        all(call.in(1).shape[0]),
        size(std::clamp<int64_t>(align_up(kPart / ins, kAlignment), 1, all)) {}

  int64_t size_of(int64_t first) const { return std::min(size, all - first); }
  int64_t x_bytes() const { return align_up(rows * ins * 4, kAlignment); }
  int64_t w_bytes() const { return align_up(size * ins * 4, kAlignment); }
  int64_t bias_bytes() const { return align_up(size * 4, kAlignment); }
  int64_t y_bytes() const { return align_up(rows * size * 4, kAlignment); }
  int64_t bytes() const { return x_bytes() + w_bytes() + bias_bytes() + y_bytes(); }
};

Kernel part_of_outputs(KernelCall call, const Outputs& outputs, int64_t size) {
  const TensorDesc bias = contiguous(DType::f32, {size});
  call.inputs = {contiguous(DType::f32, {outputs.rows, outputs.ins}), contiguous(DType::f32, {size, outputs.ins})};
  const bool biased = call.op.arity() > 2;
  if (biased) call.inputs.push_back(bias);
  call.outputs = {contiguous(DType::f32, {outputs.rows, size})};
  return product_kernel(
      {.a = call.in(0), .b = transposed(call.in(1)), .y = call.out(), .bias = biased ? &bias : nullptr}, call);
}

struct PartMemory {
  float* x;
  float* w;
  float* bias;
  float* y;
  Memory memory;

  PartMemory(const Memory& m, const Outputs& outputs)
      : x(m.scratch_at<float>(0)),
        w(m.scratch_at<float>(outputs.x_bytes())),
        bias(m.scratch_at<float>(outputs.x_bytes() + outputs.w_bytes())),
        y(m.scratch_at<float>(outputs.x_bytes() + outputs.w_bytes() + outputs.bias_bytes())) {
    for (float* data : {x, w, bias}) memory.inputs.push_back(reinterpret_cast<std::byte*>(data));
    memory.outputs = {reinterpret_cast<std::byte*>(y)};
    memory.scratch = m.scratch + outputs.bytes();
  }
};

// What a part has made, with what follows it, at its place in a row of y.
void finish_row(DType dtype, float* made, std::byte* y, int64_t count, float* workspace, const Epilogue& epilogue) {
  if (epilogue.onto) {
    low_precision_lines(dtype).upcast(workspace, reinterpret_cast<const uint16_t*>(y), count);
    add_row(made, workspace, count);
  }
  if (epilogue.relu) simd::functions().on_f32.relu(made, nullptr, made, count);
  downcast(dtype, made, y, count, 1);
}

Kernel forward_by_outputs(const KernelCall& call, const Epilogue& epilogue) {
  const Outputs o(call);
  const int64_t last_size = o.size_of((o.all - 1) / o.size * o.size);
  const Kernel full = part_of_outputs(call, o, o.size);
  const Kernel last = part_of_outputs(call, o, last_size);
  const int64_t bytes = o.bytes() + std::max(full.scratch_bytes, last.scratch_bytes);
  return {bytes, [=, x_given = call.in(0), dtype = call.in(1).dtype, threads = call.threads](const Memory& m) -> Task {
            const PartMemory part(m, o);
            return [=, multiply = full.bind(part.memory), multiply_last = last.bind(part.memory), x = m.inputs[0],
                    w = m.inputs[1], bias = m.inputs.size() > 2 ? m.inputs[2] : nullptr, y = m.outputs[0]] {
              upcast(x_given, x, part.x, threads);
              for (int64_t first = 0; first < o.all; first += o.size) {
                const int64_t size = o.size_of(first);
                upcast(contiguous(dtype, {size, o.ins}), w + first * o.ins * 2, part.w, threads);
                if (bias != nullptr) upcast(contiguous(dtype, {size}), bias + first * 2, part.bias, 1);
                (size == o.size ? multiply : multiply_last)();
                for (int64_t row = 0; row < o.rows; ++row) {  // the bias is free now
                  finish_row(dtype, part.y + row * size, y + (row * o.all + first) * 2, size, part.bias, epilogue);
                }
              }
            };
          }};
}

// ---- all at once ----

Kernel forward(const KernelCall& call) { return linear_forward(call, {}); }

Kernel backward_input(const KernelCall& call) { return product_kernel(input_product(call), call); }

Kernel backward_weights(const KernelCall& call) {
  const TensorDesc dy = rows_of(call.in(0));
  Kernel product = product_kernel(weights_product(call), call);
  if (!call.produces(1)) return product;
  const ColumnSums sums(dy.shape[0], dy.shape[1], call.threads);
  const int64_t offset = align_up(product.scratch_bytes, kAlignment);
  return {offset + sums.scratch_bytes(), [=](const Memory& m) -> Task {
            return [=, multiply = product.bind(m), x = WideInput(dy, m.inputs[0]), own = m.scratch_at<float>(offset),
                    y = WideOutput(dy, m.outputs[1])] {
              multiply();
              sums.run(x, own, y);
            };
          }};
}

Tiling threaded_rows(const KernelCall& call, std::vector<int> inputs, std::vector<int> outputs, std::vector<int> sums) {
  if (call.in(0).shape.rank() < 2) return {};
  Tiling tiling = by_rows(call, std::move(inputs), std::move(outputs), std::move(sums));
  tiling.threaded = true;
  return tiling;
}

bool computes_forward(const KernelCall& call) {
  return dnnl_computes(call) || has_heavy_weights(call) || is_packed(forward_product(call));
}
bool computes_input(const KernelCall& call) { return dnnl_computes(call) || is_packed(input_product(call)); }
bool computes_weights(const KernelCall& call) { return dnnl_computes(call) || is_packed(weights_product(call)); }

Tiling tile_input(const KernelCall& call) { return threaded_rows(call, {0}, {0}, {}); }
Tiling tile_both(const KernelCall& call) { return threaded_rows(call, {0, 1}, {}, {0, 1}); }

}  // namespace

Kernel linear_forward(const KernelCall& call, const Epilogue& epilogue) {
  const Product product = forward_product(call);
  if (has_heavy_weights(call) && !dnnl_computes(call) && !is_packed(product)) return forward_by_outputs(call, epilogue);
  return product_kernel(product, call, epilogue);
}

void register_linear_cpu(KernelTable& table) {
  table.add("linear", {forward, contiguous_only, {}, tile_input, computes_forward});
  table.add("linear_backward_input", {backward_input, contiguous_only, {}, tile_input, computes_input});
  table.add("linear_backward_weights", {backward_weights, contiguous_only, {}, tile_both, computes_weights});
}

}  // namespace plimsoll::kernels
