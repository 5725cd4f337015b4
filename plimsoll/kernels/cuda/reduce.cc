// Reductions over any dimensions.
#include "plimsoll/kernels/cuda/support/sums.h"

namespace plimsoll::kernels {
namespace {

using namespace cuda;  // NOLINT: the whole file is of it

program::AxisSet axes_of(const KernelCall& call, const Shape& shape) {
  return program::reduced_axes(call.op, shape.rank());
}

KernelDef reduction(const Reduction& how) {
  const auto prepare = [how](const KernelCall& call) {
    Steps steps(call);
    cuda::reduce(steps, call.in(0), in(0), axes_of(call, call.in(0).shape), how, call.out().dtype, out());
    return steps.kernel();
  };
  return {prepare, any_layout};
}

// A block of 128 for each result.
Launch special(const TensorDesc& x, program::AxisSet axes, const char* kind, std::string_view value = "1") {
  Launch launch{"reduce_special"};
  launch.defines.set("T", x.dtype).set(kind, value);
  launch.grid = {walk_along(x, axes, false).elements()};
  launch.block = {128, 1};
  return launch;
}

struct Walks {
  Walk kept;
  Walk gone;
  Walks(const TensorDesc& x, program::AxisSet axes)
      : kept(walk_along(x, axes, false)), gone(walk_along(x, axes, true)) {}
};

KernelDef extreme(const char* better) {
  const auto prepare = [better](const KernelCall& call) {
    const auto axes = axes_of(call, call.in(0).shape);
    const Walks walks(call.in(0), axes);
    Steps steps(call);
    Launch launch = special(call.in(0), axes, "EXTREME", better);
    launch.defines.set("INDEX", "i32");
    launch.arguments =
        Arguments(walks.gone.elements(), steps.wanted(0), steps.wanted(1), in(0), walks.kept, walks.gone);
    steps.launch(launch);
    return steps.kernel();
  };
  return {prepare, any_layout};
}

KernelDef arg(const char* better) {
  const auto prepare = [better](const KernelCall& call) {
    const auto axes = program::AxisSet().set(static_cast<size_t>(call.op.axis("axis")));
    const Walks walks(call.in(0), axes);
    Launch launch = special(call.in(0), axes, "EXTREME", better);
    launch.defines.set("INDEX", "i64");
    launch.arguments = Arguments(walks.gone.elements(), none(), out(), in(0), walks.kept, walks.gone);
    return kernel_of({step(launch)});
  };
  return {prepare, any_layout};
}

float freedom(const KernelCall& call, const Walk& gone) {
  return static_cast<float>(gone.elements() - call.op.integer("correction"));
}

Kernel var(const KernelCall& call) {
  const auto axes = axes_of(call, call.in(0).shape);
  const Walks walks(call.in(0), axes);
  Launch launch = special(call.in(0), axes, "VARIANCE");
  launch.defines.set("OUT", call.out().dtype);
  launch.arguments = Arguments(walks.gone.elements(), out(), in(0), walks.kept, walks.gone, freedom(call, walks.gone),
                               none(), int32_t{0});
  return kernel_of({step(launch)});
}

// Operand x in row-major order, as the result is.
Kernel var_backward(const KernelCall& call) {
  Steps steps(call);
  const At dy = steps.contiguous(0);
  const At x = steps.contiguous(1);
  const TensorDesc plain_x = contiguous(call.in(1).dtype, call.in(1).shape);
  const auto axes = axes_of(call, plain_x.shape);
  const Walks walks(plain_x, axes);
  Launch launch = special(plain_x, axes, "VARIANCE");
  launch.defines.set("OUT", call.out().dtype);
  launch.arguments =
      Arguments(walks.gone.elements(), out(), x, walks.kept, walks.gone, freedom(call, walks.gone), dy, int32_t{1});
  steps.launch(launch);
  return steps.kernel();
}

Kernel spread_back(const KernelCall& call, const char* kind, bool reads_y) {
  Steps steps(call);
  const At dy = steps.contiguous(0);
  const At x = steps.contiguous(1);
  const TensorDesc plain_x = contiguous(call.out().dtype, call.out().shape);
  const auto axes = axes_of(call, plain_x.shape);
  const Walks walks(plain_x, axes);
  Launch launch = special(plain_x, axes, kind);
  launch.arguments = Arguments(walks.gone.elements(), out(), dy, x);
  if (reads_y) launch.arguments.add(steps.contiguous(2));
  launch.arguments.add(walks.kept);
  launch.arguments.add(walks.gone);
  steps.launch(launch);
  return steps.kernel();
}

Kernel channel_sum(const KernelCall& call) {
  Steps steps(call);
  TensorDesc x = call.in(0);
  if (x.is_channels_last()) {  // [batch, plane, channels] in memory
    const int64_t channels = x.shape[1];
    const ReducedOf rows{x.dtype, in(0), straight(channels), [&] {
                           Walk gone;
                           gone.add(x.elements() / channels, channels);
                           return gone;
                         }()};
    cuda::reduce(steps, rows, {}, call.out().dtype, out());
    return steps.kernel();
  }
  program::AxisSet axes;
  for (int axis = 0; axis < x.shape.rank(); ++axis) axes.set(static_cast<size_t>(axis), axis != 1);
  cuda::reduce(steps, x, in(0), axes, {}, call.out().dtype, out());
  return steps.kernel();
}

}  // namespace

void register_reduce_cuda(KernelTable& table) {
  table.add("sum", reduction({}));
  table.add("mean", reduction({.finish = "sum / (ACC)count"}));
  table.add("prod", reduction({.op = "Multiply", .none = "1"}));
  table.add("norm2", reduction({.map = "v * v", .finish = "sqrtf(sum)"}));
  table.add("max", extreme(">"));
  table.add("min", extreme("<"));
  table.add("argmax", arg(">"));
  table.add("argmin", arg("<"));
  table.add("var", {var, any_layout});
  table.add("var_backward", {var_backward, any_layout});
  table.add("prod_backward",
            {[](const KernelCall& call) { return spread_back(call, "PRODUCT_BACKWARD", false); }, any_layout});
  table.add("norm2_backward",
            {[](const KernelCall& call) { return spread_back(call, "NORM_BACKWARD", true); }, any_layout});
  table.add("extreme_backward",
            {[](const KernelCall& call) { return spread_back(call, "EXTREME_BACKWARD", false); }, any_layout});
  Blocking each;
  each.rule = Blocking::Rule::each;
  each.inputs = {0};
  table.add("channel_sum", {channel_sum, any_layout, each});
}

}  // namespace plimsoll::kernels
