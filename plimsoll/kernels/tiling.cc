#include "plimsoll/kernels/tiling.h"

#include <algorithm>

namespace plimsoll::kernels {
namespace {

bool is_dense(const TensorDesc& tensor) { return tensor.blocked || tensor.is_contiguous(); }

// The places of those tensors that `takes`.
template <class F>
std::vector<int> places(const std::vector<TensorDesc>& tensors, const F& takes) {
  std::vector<int> found;
  for (size_t i = 0; i < tensors.size(); ++i) {
    if (takes(tensors[i])) found.push_back(static_cast<int>(i));
  }
  return found;
}

bool all_in_order(const std::vector<TensorDesc>& tensors, const std::vector<int>& listed) {
  return std::all_of(listed.begin(), listed.end(), [&](int i) { return is_dense(tensors[static_cast<size_t>(i)]); });
}

// Element by element where operands lie in other orders: each has the rows of the result, or is a single element.
Tiling by_rows_of_result(const KernelCall& call, const Tiling& elements) {
  const Shape& shape = call.out().shape;
  const auto has_shape = [&](const std::vector<TensorDesc>& tensors, const std::vector<int>& listed) {
    return std::all_of(listed.begin(), listed.end(),
                       [&](int i) { return tensors[static_cast<size_t>(i)].shape == shape; });
  };
  if (shape.rank() == 0 || !has_shape(call.inputs, elements.inputs) || !has_shape(call.outputs, elements.outputs)) {
    return {};
  }
  return {.rule = Tiling::Rule::rows, .count = shape[0], .inputs = elements.inputs, .outputs = elements.outputs};
}

}  // namespace

bool is_low_precision(DType dtype) { return dtype == DType::f16 || dtype == DType::bf16; }

bool has_low_precision(const KernelCall& call) {
  const auto half = [](const TensorDesc& tensor) { return is_low_precision(tensor.dtype); };
  return std::any_of(call.inputs.begin(), call.inputs.end(), half) ||
         std::any_of(call.outputs.begin(), call.outputs.end(), half);
}

bool is_mask_of(const TensorDesc& tensor, int64_t elements) {
  return tensor.dtype == DType::u8 && tensor.shape.rank() == 1 && tensor.elements() == (elements + 7) / 8;
}

Tiling by_elements(const KernelCall& call) {
  const int64_t count = call.out().elements();
  const auto takes = [=](const TensorDesc& tensor) { return tensor.elements() == count || is_mask_of(tensor, count); };
  Tiling tiling{.rule = Tiling::Rule::elements,
                .count = count,
                .inputs = places(call.inputs, takes),
                .outputs = places(call.outputs, takes)};
  return all_in_order(call.inputs, tiling.inputs) ? tiling : by_rows_of_result(call, tiling);
}

Tiling by_rows(const KernelCall& call, std::vector<int> inputs, std::vector<int> outputs, std::vector<int> sums) {
  const Shape& shape = call.arity() > 0 ? call.in(0).shape : call.out().shape;
  return {.rule = Tiling::Rule::rows,
          .count = shape[0],
          .inputs = std::move(inputs),
          .outputs = std::move(outputs),
          .sums = std::move(sums)};
}

Tiling by_planes(const KernelCall& call) {
  const Shape& shape = call.out().shape;
  const auto all = [](const TensorDesc&) { return true; };
  Tiling tiling{.rule = Tiling::Rule::planes,
                .count = shape[0] * shape[1],
                .inputs = places(call.inputs, all),
                .outputs = places(call.outputs, all)};
  return all_in_order(call.inputs, tiling.inputs) ? tiling : Tiling{};
}

bool low_precision_only_in(const KernelCall& call, const std::vector<int>& inputs, const std::vector<int>& outputs) {
  const auto is_elsewhere = [](const std::vector<TensorDesc>& tensors, const std::vector<int>& listed) {
    for (size_t i = 0; i < tensors.size(); ++i) {
      const bool is_listed = std::find(listed.begin(), listed.end(), static_cast<int>(i)) != listed.end();
      if (!is_listed && is_low_precision(tensors[i].dtype)) return true;
    }
    return false;
  };
  return !is_elsewhere(call.inputs, inputs) && !is_elsewhere(call.outputs, outputs);
}

bool any_dtype(const KernelCall& /*use*/) { return true; }

}  // namespace plimsoll::kernels
