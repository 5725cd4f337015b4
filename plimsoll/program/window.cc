#include "plimsoll/program/window.h"

#include <fmt/format.h>

#include <algorithm>

namespace plimsoll::program {
namespace {

void require_at_least(const OpCall& call, std::string_view what, const Dims& dims, int64_t least) {
  const bool holds =
      std::all_of(dims.begin(), dims.end(), [&](Dim dim) { return !dim.is_constant() || dim.constant() >= least; });
  if (!holds) call.reject(fmt::format("{} is {}, expected at least {} everywhere", what, dims.text(), least));
}

// The padding on one side of every dimension.
Dims side(const OpCall& call, int rank, int first) {
  const Dims& padding = call.dims("padding");
  if (padding.rank() != 2 * rank) return spread_over(call, "padding", rank, 0);
  return Dims(std::span(padding.begin() + first, static_cast<size_t>(rank)));
}

}  // namespace

Dim Window::count(int axis, Dim size, bool ceil_mode) const {
  if (!ceil_mode) return floor_div(size + begin[axis] + end[axis] - span(axis), stride[axis]) + 1;
  // ceil((size + padding - span) / stride) + 1, but no window starts behind x and the padding before it.
  const int64_t hangs_over = (end[axis] + stride[axis] - span(axis)).constant();
  return ceil_div(size + begin[axis] + std::min<int64_t>(hangs_over, 0), stride[axis]);
}

std::vector<AttributeSpec> window_attributes() {
  return {{"stride", AttributeKind::integers, Attribute(Dims())},
          {"padding", AttributeKind::integers, Attribute(Dims())},
          {"dilation", AttributeKind::integers, Attribute(Dims())}};
}

Dims spread_over(const OpCall& call, std::string_view name, int rank, Dim fallback) {
  const Dims& given = call.dims(name);
  if (given.rank() == rank) return given;
  if (given.rank() > 1) {
    call.reject(
        fmt::format("{} is {}, expected one number for each of the {} spatial dimensions", name, given.text(), rank));
  }
  Dims all;
  for (int axis = 0; axis < rank; ++axis) all.push_back(given.empty() ? fallback : given[0]);
  return all;
}

Window window_of(const OpCall& call, const Dims& kernel) {
  const int rank = kernel.rank();
  const Window window{kernel, spread_over(call, "stride", rank, 1), spread_over(call, "dilation", rank, 1),
                      side(call, rank, 0), side(call, rank, rank)};
  require_at_least(call, "the kernel", kernel, 1);
  require_at_least(call, "stride", window.stride, 1);
  require_at_least(call, "dilation", window.dilation, 1);
  require_at_least(call, "padding", call.dims("padding"), 0);
  return window;
}

Dims spatial(const OpCall& call, const Dims& shape) {
  const int rank = shape.rank() - 2;
  if (rank < 1 || rank > 3) {
    call.reject(fmt::format("{} must be [batch, channels] and one to three spatial dimensions", shape.text()));
  }
  return Dims(std::span(shape.begin() + 2, static_cast<size_t>(rank)));
}

Dims sized(const OpCall& call, const Dims& x) {
  const Dims plane = spatial(call, x);
  const Dims size = spread_over(call, "size", plane.rank(), 0);
  Dims y = {x[0], x[1]};
  for (int axis = 0; axis < plane.rank(); ++axis) {
    const bool empty = plane[axis] == 0 || size[axis] == 0 || size.is_negative();
    if (empty) call.reject(fmt::format("size is {}: x and the result must not be empty", size.text()));
    y.push_back(size[axis]);
  }
  return y;
}

Dims window_counts(const OpCall& call, const Window& window, const Dims& x, bool ceil_mode) {
  Dims counts;
  for (int axis = 0; axis < window.rank(); ++axis) {
    const Dim count = window.count(axis, x[axis + 2], ceil_mode);
    if (count.is_constant() && count.constant() < 1) {
      call.reject(fmt::format("a window spans {} of dimension {}, which is {} with padding {} and {}",
                              window.span(axis).text(), axis + 2, x[axis + 2].text(), window.begin[axis].text(),
                              window.end[axis].text()));
    }
    counts.push_back(count);
  }
  return counts;
}

}  // namespace plimsoll::program
