#include "plimsoll/models/onnx/ranges.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>

namespace plimsoll::models::onnx_import {

Dims filled_in(const NodeCall& call, const Dims& from, Dims to) {
  int open = -1;
  Dim known = 1;
  for (int i = 0; i < to.rank(); ++i) {
    if (to[i] == Dim(-1)) {
      if (open >= 0) call.reject("two dimensions of the new shape are -1");
      open = i;
    } else {
      known = known * to[i];
    }
  }
  if (open < 0) return to;
  if (known == Dim(0)) {
    to[open] = 0;
    return to;
  }
  // Dimensions that both have are taken off first, so that symbols divide.
  Dim all = from.elements();
  Dims rest_from = from;
  Dims rest_to = to;
  Dim top = 1;
  Dim bottom = 1;
  std::vector<bool> used(static_cast<size_t>(from.rank()), false);
  for (int i = 0; i < rest_to.rank(); ++i) {
    if (i == open) continue;
    bool taken = false;
    for (int j = 0; j < rest_from.rank() && !taken; ++j) {
      if (used[static_cast<size_t>(j)] || rest_from[j] != rest_to[i]) continue;
      used[static_cast<size_t>(j)] = true;
      taken = true;
    }
    if (!taken) bottom = bottom * rest_to[i];
  }
  for (int j = 0; j < rest_from.rank(); ++j) {
    if (!used[static_cast<size_t>(j)]) top = top * rest_from[j];
  }
  if (bottom == Dim(1)) {
    to[open] = top;
  } else if (bottom.is_constant() && bottom.constant() > 0) {
    to[open] = floor_div(top, bottom);
  } else {
    to[open] = floor_div(all, known);
  }
  return to;
}

Dims reshaped(const NodeCall& call, const Dims& from) {
  std::vector<Dim> given;
  if (call.opset < 5 || call.attribute("shape") != nullptr) {
    for (const int64_t dim : call.integers("shape")) given.emplace_back(dim);
  } else {
    given = call.dims_of(1, "the new shape");
  }
  Dims to{std::span<const Dim>(given)};
  for (int i = 0; i < to.rank(); ++i) {
    if (to[i] == Dim(0) && !call.flag("allowzero")) {
      if (i >= from.rank()) call.reject(fmt::format("dimension {} of the new shape is copied from none", i));
      to[i] = from[i];
    }
  }
  return filled_in(call, from, to);
}

Dims squeezed(const NodeCall& call, const Dims& from) {
  const std::vector<int64_t> axes = call.axes("axes", 1, from.rank());
  const bool all = axes.empty() && !call.has(1);
  Dims to;
  for (int i = 0; i < from.rank(); ++i) {
    const bool named = std::find(axes.begin(), axes.end(), i) != axes.end();
    if (named || (all && from[i] == Dim(1))) continue;
    to.push_back(from[i]);
  }
  return to;
}

Dims unsqueezed(const NodeCall& call, const Dims& from) {
  const std::vector<int64_t> given = call.has(1) ? call.ints_of(1, "the axes") : call.integers("axes");
  const int rank = from.rank() + static_cast<int>(given.size());
  std::vector<bool> is_new(static_cast<size_t>(rank), false);
  for (const int64_t axis : given) is_new[static_cast<size_t>(call.axis(axis, rank))] = true;
  Dims to;
  int next = 0;
  for (int i = 0; i < rank; ++i) {
    if (!is_new[static_cast<size_t>(i)] && next >= from.rank()) call.reject("an axis is named twice");
    to.push_back(is_new[static_cast<size_t>(i)] ? Dim(1) : from[next++]);
  }
  return to;
}

std::vector<int64_t> permutation(const NodeCall& call, int rank) {
  std::vector<int64_t> axes = call.integers("perm");
  if (axes.empty()) {
    for (int i = rank - 1; i >= 0; --i) axes.push_back(i);
  }
  for (int64_t& axis : axes) axis = call.axis(axis, rank);
  return axes;
}

std::vector<SliceRange> slice_ranges(const NodeCall& call, int rank) {
  const auto read = [&](std::string_view attribute, int operand) {
    if (call.has(operand)) return call.dims_of(operand, attribute);
    std::vector<Dim> dims;
    for (const int64_t one : call.integers(attribute)) dims.emplace_back(one);
    return dims;
  };
  const std::vector<Dim> starts = read("starts", 1);
  const std::vector<Dim> ends = read("ends", 2);
  const std::vector<Dim> axes = read("axes", 3);
  const std::vector<Dim> steps = read("steps", 4);
  if (starts.size() != ends.size() || (!axes.empty() && axes.size() != starts.size()) ||
      (!steps.empty() && steps.size() != starts.size())) {
    call.reject("starts, ends, axes and steps must be as many as each other");
  }
  std::vector<SliceRange> ranges;
  for (size_t i = 0; i < starts.size(); ++i) {
    const int axis = call.axis(axes.empty() ? static_cast<int64_t>(i) : axes[i].constant(), rank);
    const int64_t step = steps.empty() ? 1 : steps[i].constant();
    if (step == 0) call.reject("a step of 0");
    ranges.push_back({axis, starts[i], ends[i], step});
  }
  return ranges;
}

std::optional<std::vector<int64_t>> places_of(const SliceRange& range, int64_t size) {
  if (!range.start.is_constant() || !range.end.is_constant()) return std::nullopt;
  const bool forward = range.step > 0;
  const auto cut = [&](int64_t place) {
    if (place < 0) place += size;
    return std::clamp<int64_t>(place, forward ? 0 : -1, forward ? size : size - 1);
  };
  std::vector<int64_t> places;
  const int64_t start = cut(range.start.constant());
  const int64_t end = cut(range.end.constant());
  const int64_t step = std::clamp<int64_t>(range.step, -size - 1, size + 1);
  if ((forward ? end - start : start - end) / std::abs(step) > kMostHostElements) return std::nullopt;
  for (int64_t i = start; forward ? i < end : i > end; i += step) places.push_back(i);
  return places;
}

}  // namespace plimsoll::models::onnx_import
