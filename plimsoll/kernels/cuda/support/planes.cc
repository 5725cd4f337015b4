#include "plimsoll/kernels/cuda/support/planes.h"

namespace plimsoll::kernels::cuda {

Lengths::Lengths(const TensorDesc& tensor) {
  const int rank = tensor.shape.rank() - 2;
  for (int i = 0; i < rank; ++i) size[3 - rank + i] = tensor.shape[2 + i];
  const int64_t channels = tensor.shape[1];
  const int64_t plane = size[0] * size[1] * size[2];
  const int64_t unit = tensor.is_channels_last() ? channels : 1;
  stride[0] = channels * plane;
  stride[1] = tensor.is_channels_last() ? 1 : plane;
  stride[2] = unit * size[1] * size[2];
  stride[3] = unit * size[2];
  stride[4] = unit;
}

WindowLengths::WindowLengths(const program::Window& window) {
  const int rank = window.rank();
  for (int i = 0; i < rank; ++i) {
    const int at = 3 - rank + i;
    kernel[at] = window.kernel[i].constant();
    step[at] = window.stride[i].constant();
    dilation[at] = window.dilation[i].constant();
    begin[at] = window.begin[i].constant();
    end[at] = window.end[i].constant();
  }
}

TensorDesc in_order(const TensorDesc& tensor) {
  if (tensor.is_channels_last()) return tensor;
  return contiguous(tensor.dtype, tensor.shape);
}

Blocking planes_together(std::vector<int> inputs, std::vector<int> outputs) {
  Blocking blocking;
  blocking.rule = Blocking::Rule::together;
  blocking.inputs = std::move(inputs);
  blocking.outputs = std::move(outputs);
  return blocking;
}

}  // namespace plimsoll::kernels::cuda
