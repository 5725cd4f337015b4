// Convolutions as oneDNN wants to be told of them.
#pragma once

#include "plimsoll/kernels/cpu/support/dnnl.h"
#include "plimsoll/kernels/cpu/support/dnnl_primitives.h"
#include "plimsoll/program/window.h"

namespace plimsoll::kernels {

// The shapes and the window of y = conv(x, w), whichever of the three an op computes, as oneDNN has them: groups are a
// dimension of the weights, dilation counts the elements between.
struct Conv : ConvWindow {
  dnnl::memory::dims x, w, y;
  DType dtype;

  Conv(const KernelCall& call, const Shape& x_shape, const Shape& w_shape, const Shape& y_shape)
      : x(dims_of(x_shape)), w(dims_of(w_shape)), y(dims_of(y_shape)), dtype(call.in(0).dtype) {
    const program::OpCall& op_call = call.op;
    const program::Dims kernel(Shape(w_shape.dims().subspan(2)));
    const program::Window window = program::window_of(op_call, kernel);
    for (int axis = 0; axis < window.rank(); ++axis) {
      stride.push_back(window.stride[axis].constant());
      dilation.push_back(window.dilation[axis].constant() - 1);
      begin.push_back(window.begin[axis].constant());
      end.push_back(windows_end(window, axis));
    }
    const int64_t groups = op_call.integer("groups");
    if (groups == 1) return;
    w[0] /= groups;
    w.insert(w.begin(), groups);
  }

  // In the layouts that oneDNN likes.
  ConvOperands any_layout(bool biased = false) const {
    return {any_desc(x, dtype), any_desc(w, dtype), any_desc(y, dtype), biased ? bias() : dnnl::memory::desc()};
  }
  // As they are given.
  dnnl::memory::desc plain_w() const { return plain_desc(w, dtype); }
  dnnl::memory::desc bias() const { return plain_desc({y[1]}, dtype); }

  Conv with_batch(int64_t batch) const {
    Conv part = *this;
    part.x[0] = part.y[0] = batch;
    return part;
  }

 private:
  // oneDNN wants the padding at the end that the windows reach: less when a remainder of x is left out.
  int64_t windows_end(const program::Window& window, int axis) const {
    const auto i = static_cast<size_t>(axis) + 2;
    const int64_t reach = (y[i] - 1) * window.stride[axis].constant() + window.span(axis).constant();
    return reach - x[i] - window.begin[axis].constant();
  }
};

}  // namespace plimsoll::kernels
