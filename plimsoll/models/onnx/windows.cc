#include "plimsoll/models/onnx/windows.h"

#include <fmt/format.h>

#include <algorithm>

namespace plimsoll::models::onnx_import {
namespace {

Dims one_each(const NodeCall& call, const char* name, int spatial, int64_t otherwise) {
  std::vector<int64_t> given = call.integers(name);
  if (given.empty()) given.assign(static_cast<size_t>(spatial), otherwise);
  if (static_cast<int>(given.size()) != spatial) {
    call.reject(fmt::format("{} has {} numbers, expected {}", name, given.size(), spatial));
  }
  for (const int64_t one : given) {
    if (one < 1 || one > INT32_MAX) call.reject(fmt::format("{} has {}, expected 1 or more", name, one));
  }
  return dims_from(given);
}

// As many results as the dimension has elements, by the stride.
Dims same_padding(const NodeCall& call, const Windows& windows, bool more_at_end) {
  const Dims shape = call.shape(0);
  const int spatial = windows.kernel.rank();
  std::vector<int64_t> sides(static_cast<size_t>(2 * spatial), 0);
  for (int i = 0; i < spatial; ++i) {
    const Dim size = shape[i + 2];
    const int64_t stride = windows.stride[i].constant();
    call.require(size.is_constant() || stride == 1, "SAME padding needs sizes that are known");
    const int64_t span = (windows.kernel[i].constant() - 1) * windows.dilation[i].constant() + 1;
    const int64_t known = size.is_constant() ? size.constant() : 0;
    const int64_t all = std::max<int64_t>(0, ((known + stride - 1) / stride - 1) * stride + span - known);
    const int64_t small = all / 2;
    sides[static_cast<size_t>(i)] = more_at_end ? small : all - small;
    sides[static_cast<size_t>(i + spatial)] = more_at_end ? all - small : small;
  }
  return dims_from(sides);
}

}  // namespace

Dims dims_from(const std::vector<int64_t>& numbers) {
  Dims dims;
  for (const int64_t number : numbers) dims.push_back(number);
  return dims;
}

Windows windows_of(const NodeCall& call, const Dims& kernel) {
  const int spatial = call.rank(0) - 2;
  if (spatial < 1) call.reject("the operand must have dimensions after batch and channels");
  call.require(spatial <= 3, "windows over more than three dimensions");
  Windows windows;
  windows.kernel = call.attribute("kernel_shape") == nullptr ? kernel : one_each(call, "kernel_shape", spatial, 1);
  if (windows.kernel.rank() != spatial) call.reject("the kernel has not as many dimensions as the operand");
  windows.stride = one_each(call, "strides", spatial, 1);
  windows.dilation = one_each(call, "dilations", spatial, 1);
  const std::string automatic = call.text("auto_pad", "NOTSET");
  if (automatic == "SAME_UPPER" || automatic == "SAME_LOWER") {
    windows.padding = same_padding(call, windows, automatic == "SAME_UPPER");
    return windows;
  }
  std::vector<int64_t> pads = call.integers("pads");
  if (pads.empty() || automatic == "VALID") pads.assign(static_cast<size_t>(2 * spatial), 0);
  if (static_cast<int>(pads.size()) != 2 * spatial) call.reject("pads must be two for each spatial dimension");
  windows.padding = dims_from(pads);
  return windows;
}

}  // namespace plimsoll::models::onnx_import
