#include "plimsoll/kernels/cpu/support/weight_gradient.h"

#include "plimsoll/program/window.h"

namespace plimsoll::kernels {

std::optional<WeightGradient> weight_gradient(const KernelCall& call) {
  const Shape& dy = call.in(0).shape;
  const Shape& x = call.in(1).shape;
  const Shape& w = call.out().shape;
  if (x.rank() != 4 || call.op.integer("groups") != 1) return std::nullopt;
  const program::Window window = program::window_of(call.op, program::Dims(Shape(w.dims().subspan(2))));
  return WeightGradient{.batch = x[0],
                        .in = x[1],
                        .out = dy[1],
                        .height = x[2],
                        .width = x[3],
                        .rows = dy[2],
                        .columns = dy[3],
                        .kernel_h = w[2],
                        .kernel_w = w[3],
                        .stride_h = window.stride[0].constant(),
                        .stride_w = window.stride[1].constant(),
                        .dilation_h = window.dilation[0].constant(),
                        .dilation_w = window.dilation[1].constant(),
                        .top = window.begin[0].constant(),
                        .left = window.begin[1].constant()};
}

}  // namespace plimsoll::kernels
