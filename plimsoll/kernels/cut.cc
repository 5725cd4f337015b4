#include "plimsoll/kernels/cut.h"

#include <algorithm>

namespace plimsoll::kernels {
namespace {

bool lies_in_order(const Tensor& tensor) { return tensor.is_blocked() || tensor.is_contiguous(); }

// The places of those tensors that `takes`.
template <class F>
std::vector<int> places(const std::vector<Tensor>& tensors, const F& takes) {
  std::vector<int> found;
  for (size_t i = 0; i < tensors.size(); ++i) {
    if (takes(tensors[i])) found.push_back(static_cast<int>(i));
  }
  return found;
}

bool all_in_order(const std::vector<Tensor>& tensors, const std::vector<int>& listed) {
  return std::all_of(listed.begin(), listed.end(),
                     [&](int i) { return lies_in_order(tensors[static_cast<size_t>(i)]); });
}

// Element by element where operands lie in other orders: each has the rows of the result, or is a single element.
Cut by_rows_of_result(const Use& use, const Cut& elements) {
  const Shape& shape = use.out().shape;
  const auto has_shape = [&](const std::vector<Tensor>& tensors, const std::vector<int>& listed) {
    return std::all_of(listed.begin(), listed.end(),
                       [&](int i) { return tensors[static_cast<size_t>(i)].shape == shape; });
  };
  if (shape.rank() == 0 || !has_shape(use.inputs, elements.inputs) || !has_shape(use.outputs, elements.outputs)) {
    return {};
  }
  return {.rule = Cut::Rule::rows, .count = shape[0], .inputs = elements.inputs, .outputs = elements.outputs};
}

}  // namespace

bool is_half(DType dtype) { return dtype == DType::f16 || dtype == DType::bf16; }

bool has_halves(const Use& use) {
  const auto half = [](const Tensor& tensor) { return is_half(tensor.dtype); };
  return std::any_of(use.inputs.begin(), use.inputs.end(), half) ||
         std::any_of(use.outputs.begin(), use.outputs.end(), half);
}

bool is_mask_of(const Tensor& tensor, int64_t elements) {
  return tensor.dtype == DType::u8 && tensor.shape.rank() == 1 && tensor.elements() == (elements + 7) / 8;
}

Cut by_elements(const Use& use) {
  const int64_t count = use.out().elements();
  const auto takes = [=](const Tensor& tensor) { return tensor.elements() == count || is_mask_of(tensor, count); };
  Cut cut{.rule = Cut::Rule::elements,
          .count = count,
          .inputs = places(use.inputs, takes),
          .outputs = places(use.outputs, takes)};
  return all_in_order(use.inputs, cut.inputs) ? cut : by_rows_of_result(use, cut);
}

Cut by_rows(const Use& use, std::vector<int> inputs, std::vector<int> outputs, std::vector<int> sums) {
  const Shape& shape = use.arity() > 0 ? use.in(0).shape : use.out().shape;
  return {.rule = Cut::Rule::rows,
          .count = shape[0],
          .inputs = std::move(inputs),
          .outputs = std::move(outputs),
          .sums = std::move(sums)};
}

Cut by_planes(const Use& use) {
  const Shape& shape = use.out().shape;
  const auto all = [](const Tensor&) { return true; };
  Cut cut{.rule = Cut::Rule::planes,
          .count = shape[0] * shape[1],
          .inputs = places(use.inputs, all),
          .outputs = places(use.outputs, all)};
  return all_in_order(use.inputs, cut.inputs) ? cut : Cut{};
}

bool halves_only_in(const Use& use, const std::vector<int>& inputs, const std::vector<int>& outputs) {
  const auto is_elsewhere = [](const std::vector<Tensor>& tensors, const std::vector<int>& listed) {
    for (size_t i = 0; i < tensors.size(); ++i) {
      const bool is_listed = std::find(listed.begin(), listed.end(), static_cast<int>(i)) != listed.end();
      if (!is_listed && is_half(tensors[i].dtype)) return true;
    }
    return false;
  };
  return !is_elsewhere(use.inputs, inputs) && !is_elsewhere(use.outputs, outputs);
}

bool any_dtype(const Use& /*use*/) { return true; }

}  // namespace plimsoll::kernels
