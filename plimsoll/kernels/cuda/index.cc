// Rows and elements by their index.
#include <algorithm>

#include "plimsoll/kernels/cuda/support/steps.h"

namespace plimsoll::kernels {
namespace {

using namespace cuda;  // NOLINT: the whole file is of it

Kernel gather(const KernelCall& call, int axis, bool from_end, bool scaled) {
  Steps steps(call);
  const Around around(call.in(0).shape, axis);
  const int64_t count = call.in(1).elements();
  Launch launch{"index"};
  launch.defines.set("GATHER").set("INDEX", call.in(1).dtype);
  if (scaled) {
    launch.defines.set("SCALED").set("T", call.in(0).dtype).set("OUT", call.out().dtype);
  } else {
    launch.defines.set("T", unit_of(call.in(0).dtype)).set("OUT", unit_of(call.in(0).dtype));
  }
  launch.grid = {std::min<int64_t>(blocks_for(call.out().elements()), 1 << 16)};
  launch.arguments =
      Arguments(around.outer, around.size, around.inner, count, out(), steps.contiguous(0), steps.contiguous(1),
                scaled ? steps.contiguous(2) : none(), int32_t{from_end}, FaultOf{1});
  steps.launch(launch);
  return steps.kernel();
}

Kernel gather_backward(const KernelCall& call) {
  Steps steps(call);
  const Around around(call.out().shape, static_cast<int>(call.op.integer("axis")));
  const int64_t count = call.in(1).elements();
  const int64_t padding = call.op.integer("padding");
  const At dy = steps.contiguous(0);
  const At index = steps.contiguous(1);
  const At seen = steps.scratch(around.size * 4);
  const At first = steps.scratch(around.size * 4);
  const At start = steps.scratch(around.size * 4);
  const At filled = steps.scratch(around.size * 4 + 4);
  const At taken = filled + around.size * 4;
  const At list = steps.scratch(count * 4);
  steps.add(fill_bytes(seen, 0, around.size * 4));
  steps.add(fill_bytes(filled, 0, around.size * 4 + 4));
  steps.add(fill_bytes(first, 0xFF, around.size * 4));
  steps.add(fill_bytes(out(), 0, call.out().bytes()));
  if (count == 0) return steps.kernel();
  Launch tally{"index"};
  tally.defines.set("GATHER_BACKWARD").set("T", call.in(0).dtype).set("INDEX", call.in(1).dtype);
  tally.function = "tally";
  tally.grid = {blocks_for(count)};
  tally.arguments = Arguments(around.size, count, index, seen, first, padding, FaultOf{1});
  Launch reserve = tally;
  reserve.function = "reserve";
  reserve.arguments = Arguments(around.size, count, index, seen, first, start, taken);
  Launch enlist = tally;
  enlist.function = "enlist";
  enlist.arguments = Arguments(around.size, count, index, seen, start, filled, list);
  Launch sums = tally;
  sums.function = "add_up";
  sums.grid = {count, around.outer};
  sums.block = {around.inner >= 128 ? 128U : 32U, 1};
  sums.arguments = Arguments(around.size, around.inner, count, out(), dy, index, seen, first, start, list, padding);
  steps.launch(tally);
  steps.launch(reserve);
  steps.launch(enlist);
  steps.launch(sums);
  return steps.kernel();
}

Launch elements_launch(const KernelCall& call, std::string_view type, const char* function) {
  Launch launch{"index"};
  launch.defines.set("ELEMENTS").set("T", type).set("INDEX", call.in(1).dtype);
  launch.function = function;
  return launch;
}

program::AxisSet only(int axis) { return program::AxisSet().set(static_cast<size_t>(axis)); }

// The strides of `whole` for an index of shape `index`, without the axis.
Walk lines_in(const TensorDesc& whole, const Shape& index, int axis, bool with_axis) {
  Walk walk;
  for (int d = 0; d < index.rank(); ++d) {
    if (d != axis) walk.add(index[d], whole.stride(d));
    if (d == axis && with_axis) walk.add(index[d], 0);
  }
  return walk;
}

Kernel gather_elements(const KernelCall& call) {
  Steps steps(call);
  const int axis = call.op.axis("axis");
  const TensorDesc x = contiguous(call.in(0).dtype, call.in(0).shape);
  const At from = steps.contiguous(0);
  const int64_t n = call.out().elements();
  Launch launch = elements_launch(call, unit_of(x.dtype), "take");
  launch.grid = {blocks_for(n)};
  launch.arguments = Arguments(n, out(), from, steps.contiguous(1), lines_in(x, call.in(1).shape, axis, true), Walk{},
                               x.shape[axis], x.stride(axis), FaultOf{1});
  steps.launch(launch);
  return steps.kernel();
}

void put_elements(Steps& steps, int updates, int axis, bool adds) {
  const KernelCall& call = steps.call();
  const TensorDesc y = contiguous(call.out().dtype, call.out().shape);
  const TensorDesc index = contiguous(call.in(1).dtype, call.in(1).shape);
  if (index.elements() == 0) return;
  const int64_t lines = index.elements() / index.shape[axis];
  Launch launch = elements_launch(call, adds ? type_name(y.dtype) : unit_of(y.dtype), "put");
  if (adds) launch.defines.set("ADDS");
  launch.block = {64, 1};
  launch.grid = {blocks_for(lines, 64)};
  launch.arguments = Arguments(lines, index.shape[axis], out(), steps.contiguous(updates), steps.contiguous(1),
                               lines_in(y, index.shape, axis, false), walk_along(index, only(axis), false),
                               y.shape[axis], y.stride(axis), index.stride(axis), FaultOf{1});
  steps.launch(launch);
}

Kernel gather_elements_backward(const KernelCall& call) {
  Steps steps(call);
  steps.add(fill_bytes(out(), 0, call.out().bytes()));
  put_elements(steps, 0, call.op.axis("axis"), true);
  return steps.kernel();
}

Kernel scatter_elements(const KernelCall& call) {
  Steps steps(call);
  steps.add(copy_bytes(out(), steps.contiguous(0), call.out().bytes()));
  put_elements(steps, 2, call.op.axis("axis"), call.op.flag("add"));
  return steps.kernel();
}

Kernel one_hot(const KernelCall& call) {
  Steps steps(call);
  const int64_t depth = call.op.integer("depth");
  Launch launch{"index"};
  launch.defines.set("ONE_HOT").set("OUT", call.out().dtype).set("INDEX", call.in(0).dtype);
  launch.grid = {blocks_for(call.out().elements())};
  launch.arguments = Arguments(call.in(0).elements(), depth, out(), steps.contiguous(0), FaultOf{0});
  steps.launch(launch);
  return steps.kernel();
}

// ---- along an axis ----

Kernel cumsum(const KernelCall& call) {
  Steps steps(call);
  const Around around(call.in(0).shape, call.op.axis("axis"));
  const int64_t lines = around.outer * around.inner;
  Launch launch{"along_axis"};
  launch.defines.set("CUMSUM").set("T", call.in(0).dtype);
  launch.block = {64, 1};
  launch.grid = {blocks_for(lines, 64)};
  launch.arguments = Arguments(lines, around.size, around.inner, out(), steps.contiguous(0),
                               int32_t{call.op.flag("exclusive")}, int32_t{call.op.flag("reverse")});
  steps.launch(launch);
  return steps.kernel();
}

Kernel top_k(const KernelCall& call) {
  Steps steps(call);
  const int axis = call.op.axis("axis");
  const Around around(call.in(0).shape, axis);
  const int64_t lines = around.outer * around.inner;
  Launch launch{"along_axis"};
  launch.defines.set("TOP_K").set("T", call.in(0).dtype);
  launch.block = {64, 1};
  launch.grid = {blocks_for(lines, 64)};
  launch.arguments = Arguments(lines, around.size, around.inner, call.op.integer("k"), steps.wanted(0), steps.wanted(1),
                               steps.contiguous(0), int32_t{call.op.flag("largest")});
  steps.launch(launch);
  return steps.kernel();
}

}  // namespace

void register_index_cuda(KernelTable& table) {
  table.add("embedding", {[](const KernelCall& call) { return gather(call, 0, false, false); }, any_layout});
  table.add("embedding_i8", {[](const KernelCall& call) { return gather(call, 0, false, true); }, any_layout});
  table.add("gather",
            {[](const KernelCall& call) { return gather(call, call.op.axis("axis"), true, false); }, any_layout});
  table.add("gather_backward", {gather_backward, any_layout});
  table.add("gather_elements", {gather_elements, any_layout});
  table.add("gather_elements_backward", {gather_elements_backward, any_layout});
  table.add("scatter_elements", {scatter_elements, any_layout});
  table.add("one_hot", {one_hot, any_layout});
  table.add("cumsum", {cumsum, any_layout});
  table.add("top_k", {top_k, any_layout});
}

}  // namespace plimsoll::kernels
