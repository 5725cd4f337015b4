// Pools, padding and resizing.
#include "plimsoll/program/window.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "plimsoll/kernels/cuda/support/planes.h"

namespace plimsoll::kernels {
namespace {

using namespace cuda;  // NOLINT: the whole file is of it

// ---- pools ----

// As pool.cuh has it.
template <class I>
struct Plane {
  I size[3], windows[3];
  I x_stride[5], y_stride[5];
  I kernel[3], step[3], dilation[3], begin[3], end[3];
  I channels;
};

struct PoolKind {
  bool adaptive;
  bool average;
};

template <class I>
Plane<I> plane_of(const KernelCall& call, const PoolKind& kind, const TensorDesc& x, const TensorDesc& y) {
  Plane<I> plane{};
  const Lengths of_x(x);
  const Lengths of_y(y);
  std::copy_n(of_x.size, 3, plane.size);
  std::copy_n(of_y.size, 3, plane.windows);
  std::copy_n(of_x.stride, 5, plane.x_stride);
  std::copy_n(of_y.stride, 5, plane.y_stride);
  plane.channels = static_cast<I>(x.shape[1]);
  if (kind.adaptive) return plane;
  const int rank = x.shape.rank() - 2;
  const WindowLengths window(program::window_of(call.op, program::spread_over(call.op, "kernel", rank, 0)));
  std::copy_n(window.kernel, 3, plane.kernel);
  std::copy_n(window.step, 3, plane.step);
  std::copy_n(window.dilation, 3, plane.dilation);
  std::copy_n(window.begin, 3, plane.begin);
  std::copy_n(window.end, 3, plane.end);
  return plane;
}

// Numbers of 32 bits can count the elements.
bool is_small(const TensorDesc& x, const TensorDesc& y) {
  return std::max(x.elements(), y.elements()) < int64_t{1} << 30;
}

// "{{1,3,3},{..},..}": each array of the struct in braces.
template <class I>
std::string text_of(const Plane<I>& plane) {
  const auto list = [](const auto& numbers) { return fmt::format("{{{}}}", fmt::join(numbers, ",")); };
  return fmt::format("{{{},{},{},{},{},{},{},{},{},{}}}", list(plane.size), list(plane.windows), list(plane.x_stride),
                     list(plane.y_stride), list(plane.kernel), list(plane.step), list(plane.dilation),
                     list(plane.begin), list(plane.end), plane.channels);
}

// A pool of many elements has its sizes as constants: most of its work is to divide by them.
constexpr int64_t kLeastConstant = int64_t{1} << 22;

void add_plane(Launch& launch, const KernelCall& call, const PoolKind& kind, const TensorDesc& x, const TensorDesc& y) {
  if (is_small(x, y)) {
    const auto plane = plane_of<int32_t>(call, kind, x, y);
    launch.arguments.add(plane);
    if (x.elements() >= kLeastConstant)
      launch.defines.set("PLANE", text_of(plane)).set("LAST", x.is_channels_last() ? "1" : "0");
  } else {
    launch.arguments.add(plane_of<int64_t>(call, kind, x, y));
  }
  launch.arguments.add(int32_t{x.is_channels_last()});
}

Launch pool_launch(const KernelCall& call, const PoolKind& kind, const char* direction, DType index, bool small) {
  Launch launch{"pool"};
  launch.defines.set("I", small ? "i32" : "i64");
  launch.defines.set(direction).set("T", call.in(0).dtype).set("INDEX", index);
  if (kind.adaptive) launch.defines.set("ADAPTIVE");
  if (kind.average) launch.defines.set("AVERAGE");
  if (kind.average && !kind.adaptive && call.op.flag("count_include_pad")) launch.defines.set("INCLUDE_PAD");
  return launch;
}

KernelDef pool(const PoolKind& kind) {
  const auto prepare = [kind](const KernelCall& call) {
    Steps steps(call);
    const TensorDesc x = in_order(call.in(0));
    Launch launch =
        pool_launch(call, kind, "FORWARD", !kind.average && call.produces(1) ? call.out(1).dtype : DType::u8,
                    is_small(x, call.out()));
    launch.grid = {blocks_for(call.out().elements())};
    launch.arguments =
        Arguments(call.out().elements(), steps.wanted(0), kind.average ? none() : steps.wanted(1), steps.contiguous(0));
    add_plane(launch, call, kind, x, call.out());
    steps.launch(launch);
    return steps.kernel();
  };
  return {prepare, any_layout, planes_together({0}, kind.average ? std::vector{0} : std::vector{0, 1})};
}

KernelDef pool_backward(const PoolKind& kind) {
  const auto prepare = [kind](const KernelCall& call) {
    Steps steps(call);
    const TensorDesc dy = in_order(call.in(0));
    Launch launch =
        pool_launch(call, kind, "BACKWARD", kind.average ? DType::u8 : call.in(1).dtype, is_small(call.out(), dy));
    const int64_t each = call.out().is_channels_last() && dy.is_channels_last() && dy.shape[1] % 8 == 0 ? 8 : 1;
    launch.defines.set("EACH", std::to_string(each));
    launch.grid = {blocks_for(call.out().elements(), 256, each)};
    launch.arguments =
        Arguments(call.out().elements(), out(), steps.contiguous(0), kind.average ? none() : steps.contiguous(1));
    add_plane(launch, call, kind, call.out(), dy);
    steps.launch(launch);
    return steps.kernel();
  };
  return {prepare, any_layout, planes_together(kind.average ? std::vector{0} : std::vector{0, 1}, {0})};
}

// ---- padding ----

// As pad.cuh has it.
struct Edges {
  int32_t rank = 0;
  int32_t mode = 0;
  int64_t size[8] = {}, padded[8] = {}, before[8] = {}, stride[8] = {};
};

Edges edges_of(const TensorDesc& x, const Shape& y) {
  Edges edges;
  edges.rank = x.shape.rank();
  for (int axis = 0; axis < edges.rank; ++axis) {
    edges.size[axis] = x.shape[axis];
    edges.padded[axis] = y[axis];
    edges.stride[axis] = x.stride(axis);
  }
  return edges;
}

int mode_of(const KernelCall& call) {
  const std::string& mode = call.op.word("mode");
  return mode == "constant" ? 0 : mode == "reflect" ? 1 : 2;
}

Kernel pad(const KernelCall& call) {
  Edges edges = edges_of(call.in(0), call.out().shape);
  edges.mode = mode_of(call);
  for (int axis = 0; axis < edges.rank; ++axis) edges.before[axis] = call.op.dims("before")[axis].constant();
  Launch launch{"pad"};
  const DType dtype = call.out().dtype;
  const char* value = is_floating(dtype) ? "value" : dtype == DType::boolean ? "value != 0" : "(i64)floor(value)";
  launch.defines.set("FORWARD").set("T", dtype).set("VALUE", value);
  launch.grid = {blocks_for(call.out().elements())};
  launch.arguments = Arguments(call.out().elements(), out(), in(0), edges, call.op.real("value"));
  return kernel_of({step(launch)});
}

Kernel tile(const KernelCall& call) {
  Launch launch{"pad"};
  launch.defines.set("TILE").set("UNIT", unit_of(call.out().dtype));
  launch.grid = {blocks_for(call.out().elements())};
  launch.arguments = Arguments(call.out().elements(), out(), in(0), edges_of(call.in(0), call.out().shape));
  return kernel_of({step(launch)});
}

// What is between steps that go one dimension at a time, from one shape to the other: f32 in scratch, by turns.
template <class MakeLaunch>
Kernel axis_by_axis(const KernelCall& call, std::vector<int> axes, const MakeLaunch& make) {
  Steps steps(call);
  Shape shape = call.in(0).shape;
  At from = steps.contiguous(0);
  DType type = call.in(0).dtype;
  if (axes.empty()) {
    steps.add(copy_bytes(out(), from, call.out().bytes()));
    return steps.kernel();
  }
  for (size_t i = 0; i < axes.size(); ++i) {
    const bool last = i + 1 == axes.size();
    std::vector<int64_t> sizes(shape.dims().begin(), shape.dims().end());
    sizes[static_cast<size_t>(axes[i])] = call.out().shape[axes[i]];
    const Shape next{std::span<const int64_t>(sizes)};
    const DType to_type = last ? call.out().dtype : DType::f32;
    const At to = last ? out() : steps.scratch(next.elements() * 4);
    Launch launch = make(axes[i], shape, next, type, to_type, from, to);
    launch.grid = {blocks_for(next.elements())};
    steps.launch(launch);
    shape = next;
    from = to;
    type = to_type;
  }
  return steps.kernel();
}

std::vector<int> axes_that_differ(const Shape& a, const Shape& b) {
  std::vector<int> axes;
  for (int axis = 0; axis < a.rank(); ++axis) {
    if (a[axis] != b[axis]) axes.push_back(axis);
  }
  return axes;
}

Kernel pad_backward(const KernelCall& call) {
  const int mode = mode_of(call);
  return axis_by_axis(call, axes_that_differ(call.in(0).shape, call.out().shape),
                      [&](int axis, const Shape& shape, const Shape& next, DType type, DType to_type, At from, At to) {
                        Launch launch{"pad"};
                        launch.defines.set("BACKWARD").set("T", type).set("OUT", to_type);
                        const Around around(shape, axis);
                        launch.arguments =
                            Arguments(next.elements(), next[axis], shape[axis], call.op.dims("before")[axis].constant(),
                                      around.inner, to, from, int32_t{mode == 1});
                        return launch;
                      });
}

// ---- resizing ----

struct Sizes {
  int64_t from[3], to[3];
};

Kernel resize(const KernelCall& call) {
  Steps steps(call);
  const Lengths x(call.out());
  const Lengths from(in_order(call.in(0)));
  Sizes sizes{};
  std::copy_n(from.size, 3, sizes.from);
  std::copy_n(x.size, 3, sizes.to);
  Launch launch{"resize"};
  launch.defines.set("FORWARD").set("T", call.out().dtype);
  launch.grid = {blocks_for(call.out().elements())};
  launch.arguments =
      Arguments(call.out().elements(), out(), steps.contiguous(0), sizes, int32_t{call.op.word("mode") == "nearest"},
                int32_t{call.op.flag("align_corners")}, call.op.real("scale"));
  steps.launch(launch);
  return steps.kernel();
}

Kernel resize_backward(const KernelCall& call) {
  std::vector<int> axes;
  for (int axis = 2; axis < call.out().shape.rank(); ++axis) axes.push_back(axis);
  return axis_by_axis(call, axes,
                      [&](int axis, const Shape& shape, const Shape& next, DType type, DType to_type, At from, At to) {
                        Launch launch{"resize"};
                        launch.defines.set("BACKWARD").set("T", type).set("OUT", to_type);
                        const Around around(shape, axis);
                        launch.arguments = Arguments(next.elements(), next[axis], shape[axis], around.inner, to, from,
                                                     int32_t{call.op.word("mode") == "nearest"},
                                                     int32_t{call.op.flag("align_corners")}, call.op.real("scale"));
                        return launch;
                      });
}

}  // namespace

void register_window_cuda(KernelTable& table) {
  const std::pair<const char*, PoolKind> kinds[] = {{"max_pool", {false, false}},
                                                    {"avg_pool", {false, true}},
                                                    {"adaptive_max_pool", {true, false}},
                                                    {"adaptive_avg_pool", {true, true}}};
  for (const auto& [name, kind] : kinds) {
    table.add(name, pool(kind));
    table.add(std::string(name) + "_backward", pool_backward(kind));
  }
  table.add("pad", {pad, any_layout});
  table.add("pad_backward", {pad_backward, any_layout});
  table.add("tile", {tile, any_layout});
  table.add("resize", {resize, any_layout});
  table.add("resize_backward", {resize_backward, any_layout});
}

}  // namespace plimsoll::kernels
