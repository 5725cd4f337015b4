// Tensors [batch, channels, plane of up to three dimensions] as device code of windows takes them.
#pragma once

#include "plimsoll/kernels/cuda/support/steps.h"
#include "plimsoll/program/window.h"

namespace plimsoll::kernels::cuda {

// Sizes of the plane, with ones before; strides of batch, channels and the plane, as the tensor lies: row-major, or
// channels last where it is blocked.
struct Lengths {
  int64_t size[3] = {1, 1, 1};
  int64_t stride[5] = {};
  explicit Lengths(const TensorDesc& tensor);
};

struct WindowLengths {
  int64_t kernel[3] = {1, 1, 1};
  int64_t step[3] = {1, 1, 1};
  int64_t dilation[3] = {1, 1, 1};
  int64_t begin[3] = {};
  int64_t end[3] = {};
  explicit WindowLengths(const program::Window& window);
};

// A copy of it in row-major order, which Steps::contiguous gives; blocked ones are as they are.
TensorDesc in_order(const TensorDesc& tensor);

// All blocked or none, whatever their sizes.
Blocking planes_together(std::vector<int> inputs, std::vector<int> outputs);

}  // namespace plimsoll::kernels::cuda
