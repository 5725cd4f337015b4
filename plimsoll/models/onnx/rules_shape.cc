// Ops that change how tensors are seen, take them apart and put them together.
#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "plimsoll/models/onnx/node.h"
#include "plimsoll/models/onnx/ranges.h"
#include "plimsoll/program/ops/along_axis.h"
#include "plimsoll/program/ops/constant.h"
#include "plimsoll/program/ops/elementwise_binary.h"
#include "plimsoll/program/ops/elementwise_unary.h"
#include "plimsoll/program/ops/pad.h"
#include "plimsoll/program/ops/shape.h"
#include "plimsoll/program/ops/slice.h"

namespace plimsoll::models::onnx_import {
namespace {

namespace p = program;

void import_shape(NodeCall& call) {
  const Dims dims = call.shape(0);
  const auto cut = [&](int64_t place) {
    return std::clamp<int64_t>(place < 0 ? place + dims.rank() : place, 0, dims.rank());
  };
  const int64_t start = cut(call.integer("start", 0));
  const int64_t end = std::max(start, cut(call.integer("end", dims.rank())));
  call.set(0, host_ints(std::span<const Dim>(dims.begin() + start, dims.begin() + end)), TensorProto::INT64);
}

void import_size(NodeCall& call) {
  HostTensor size = host_scalar(ElementKind::integer, 0);
  size.ints = {call.shape(0).elements()};
  call.set(0, std::move(size), TensorProto::INT64);
}

void import_constant(NodeCall& call) {
  if (const AttributeProto* value = call.attribute("value")) {
    const TensorData data(call.in.shared_file(), value->t());
    if (data.elements() <= kMostHostElements) return call.set(0, read_host(data), data.element_type());
    return call.set(0, Tensor{data.element_type(), {}, {}, std::make_shared<const TensorData>(data)});
  }
  const auto reals = [&](const std::vector<double>& values, const Dims& dims) {
    call.set(0, HostTensor{ElementKind::real, dims, dims.shape(), {}, values}, TensorProto::FLOAT);
  };
  if (call.attribute("value_float") != nullptr) return reals({call.real("value_float", 0)}, {});
  if (call.attribute("value_floats") != nullptr) {
    const auto values = call.reals("value_floats");
    return reals(values, {static_cast<int64_t>(values.size())});
  }
  if (call.attribute("value_int") != nullptr) {
    return call.set(0, host_integer(call.integer("value_int", 0)), TensorProto::INT64);
  }
  if (call.attribute("value_ints") != nullptr) {
    std::vector<Dim> values;
    for (const int64_t one : call.integers("value_ints")) values.emplace_back(one);
    return call.set(0, host_ints(values), TensorProto::INT64);
  }
  call.unsupported("a constant of strings or sparse numbers");
}

void import_constant_of_shape(NodeCall& call) {
  const std::vector<Dim> dims = call.dims_of(0, "the shape");
  HostTensor value = host_scalar(ElementKind::real, 0);
  int type = TensorProto::FLOAT;
  if (const AttributeProto* given = call.attribute("value")) {
    const TensorData data(call.in.shared_file(), given->t());
    if (data.elements() != 1) call.reject("the value must be one number");
    value = read_host(data);
    type = data.element_type();
  }
  call.set(0, host_fill(value, Dims(dims)), type);
}

// 0, 1, 2, ..
Value count_up(NodeCall& call, Dim count) {
  const Value ones = p::fill(call.b, 1, {DType::i64, {count}});
  return p::cumsum(call.b, ones, 0, {.exclusive = true});
}

void import_range(NodeCall& call) {
  Builder& b = call.b;
  if (call.is_real(0)) {
    const double start = call.real_of(0, "the start");
    const double step = call.real_of(2, "the step");
    const double limit = call.real_of(1, "the limit");
    const double numbers = std::max(0.0, std::ceil((limit - start) / step));
    call.require(numbers <= kMostHostElements, "more numbers than are computed on the host");
    const auto count = static_cast<int64_t>(numbers);
    HostTensor y{ElementKind::real, {count}, Shape{count}};
    for (int64_t i = 0; i < count; ++i) y.reals.push_back(start + static_cast<double>(i) * step);
    return call.set(0, std::move(y), call.element_type(0));
  }
  const auto one = [&](int i, const char* what) {
    const std::vector<Dim> found = call.dims_of(i, what);
    if (found.size() != 1) call.reject(fmt::format("{} must be one number", what));
    return found[0];
  };
  const Dim start = one(0, "the start");
  const Dim limit = one(1, "the limit");
  const Dim step = one(2, "the step");
  call.require(step.is_constant() && step.constant() > 0 && start.is_constant(), "a range of symbols but 0, n, 1");
  Value y = count_up(call, ceil_div(limit - start, step));
  if (step != Dim(1)) y = p::mul(b, y, call.scalar(static_cast<double>(step.constant()), DType::i64));
  if (start != Dim(0)) y = p::add(b, y, call.scalar(static_cast<double>(start.constant()), DType::i64));
  call.set_same(y);
}

void import_reshape(NodeCall& call) { call.set_same(p::reshape(call.b, call.value(0), reshaped(call, call.shape(0)))); }
void import_squeeze(NodeCall& call) { call.set_same(p::reshape(call.b, call.value(0), squeezed(call, call.shape(0)))); }
void import_unsqueeze(NodeCall& call) {
  call.set_same(p::reshape(call.b, call.value(0), unsqueezed(call, call.shape(0))));
}
void import_flatten(NodeCall& call) {
  const int rank = call.rank(0);
  const int64_t given = call.integer("axis", 1);
  const int64_t axis = given < 0 ? given + rank : given;
  if (axis < 0 || axis > rank) call.reject(fmt::format("there is no dimension {} among {}", given, rank));
  call.set_same(p::flatten(call.b, call.value(0), static_cast<int>(axis)));
}

void import_transpose(NodeCall& call) {
  const std::vector<int64_t> axes = permutation(call, call.rank(0));
  const std::vector<Dim> dims(axes.begin(), axes.end());
  const Value x = call.value(0);
  const Value y = p::transpose(call.b, x, Dims(std::span<const Dim>(dims)));
  if (axes == std::vector<int64_t>{1, 0}) call.in.remember_transposed(y, x);
  call.set_same(y);
}

void import_expand(NodeCall& call) {
  const std::vector<Dim> given = call.dims_of(1, "the shape");
  Dims to{std::span<const Dim>(given)};
  const Dims from = call.shape(0);
  Dims whole;
  const int rank = std::max(to.rank(), from.rank());
  for (int i = 0; i < rank; ++i) {  // either may be 1
    const int in_to = i - (rank - to.rank());
    const int in_from = i - (rank - from.rank());
    const Dim wide = in_to < 0 ? Dim(1) : to[in_to];
    whole.push_back(wide == Dim(1) && in_from >= 0 ? from[in_from] : wide);
  }
  call.set_same(p::expand(call.b, call.value(0), whole));
}

void import_concat(NodeCall& call) {
  const int axis = call.axis(call.integer("axis", 1), call.rank(0));
  std::vector<Value> parts;
  for (int i = 0; i < call.inputs(); ++i) {
    const Dims shape = call.shape(i);
    if (shape.rank() == 1 && shape[0] == Dim(0) && call.inputs() > 1) continue;
    parts.push_back(call.value(i));
  }
  if (parts.empty()) return call.set_same(call.value(0));
  call.set_same(parts.size() == 1 ? parts[0] : p::concat(call.b, parts, axis));
}

void import_slice(NodeCall& call) {
  Value x = call.value(0);
  for (const SliceRange& range : slice_ranges(call, call.rank(0))) {
    constexpr int64_t kFar = int64_t{1} << 40;  // exporters write the largest number for "to the end"
    p::Range one{.axis = range.axis, .start = range.start, .end = range.end, .step = range.step};
    const bool to_end =
        range.end.is_constant() && (range.step > 0 ? range.end.constant() > kFar : range.end.constant() < -kFar);
    if (to_end) one.end = std::nullopt;
    if (range.start.is_constant() && range.start.constant() > kFar) one.start = kFar;
    if (range.start.is_constant() && range.start.constant() < -kFar) one.start = 0;
    x = p::slice(call.b, x, one);
  }
  call.set_same(x);
}

// Of elements that are known, such as sizes. Whether that could be done.
bool split_host(NodeCall& call, int axis, const std::vector<Dim>& sizes) {
  const HostTensor* known = call.try_host(0);
  if (known == nullptr) return false;
  std::vector<HostTensor> parts;
  int64_t start = 0;
  for (size_t k = 0; k < static_cast<size_t>(call.outputs()); ++k) {
    if (!sizes[k].is_constant() || sizes[k].constant() < 0 || sizes[k].constant() > kMostHostElements) return false;
    std::vector<int64_t> places(static_cast<size_t>(sizes[k].constant()));
    std::iota(places.begin(), places.end(), start);
    start += sizes[k].constant();
    if (!known->dims[axis].is_constant() || start > known->dims[axis].constant()) return false;
    auto part = host_pick(*known, axis, places);
    if (!part) return false;
    parts.push_back(std::move(*part));
  }
  const int type = call.element_type(0);
  for (size_t k = 0; k < parts.size(); ++k) call.set(static_cast<int>(k), std::move(parts[k]), type);
  return true;
}

void import_split(NodeCall& call) {
  const int axis = call.axis(call.integer("axis", 0), call.rank(0));
  const Dim size = call.shape(0)[axis];
  std::vector<Dim> sizes;
  if (call.has(1)) {
    sizes = call.dims_of(1, "the sizes");
  } else if (call.attribute("split") != nullptr) {
    for (const int64_t one : call.integers("split")) sizes.emplace_back(one);
  } else {
    const int64_t parts = call.integer("num_outputs", call.outputs());
    if (parts < 1 || parts > 4096) call.reject("a number of parts that makes no sense");
    const Dim each = ceil_div(size, parts);
    for (int64_t i = 0; i + 1 < parts; ++i) sizes.push_back(each);
    sizes.push_back(size - each * (parts - 1));
  }
  if (static_cast<int>(sizes.size()) < call.outputs()) call.reject("more results than parts");
  if (split_host(call, axis, sizes)) return;
  const Value x = call.value(0);
  if (sizes.size() > 1 && sizes.size() <= 8) {
    const std::vector<Value> parts = p::split(call.b, x, axis, Dims(std::span<const Dim>(sizes)));
    for (int k = 0; k < call.outputs(); ++k) call.set(k, parts[static_cast<size_t>(k)], call.element_type(0));
    return;
  }
  Dim start = 0;
  for (int k = 0; k < call.outputs(); ++k) {
    const Dim end = start + sizes[static_cast<size_t>(k)];
    call.set(k, p::slice(call.b, x, p::Range{.axis = axis, .start = start, .end = end}), call.element_type(0));
    start = end;
  }
}

void import_tile(NodeCall& call) {
  if (call.opset < 6) call.unsupported("Tile before version 6");
  const std::vector<Dim> repeats = call.dims_of(1, "the repeats");
  call.set_same(p::tile(call.b, call.value(0), Dims(std::span<const Dim>(repeats))));
}

// Sides of all dimensions, of which only `axes` may be given.
struct Sides {
  Dims before, after;
};
Sides sides_of(NodeCall& call) {
  const int rank = call.rank(0);
  std::vector<int64_t> given =
      call.has(1) ? call.ints_of(1, "the pads") : call.integers(call.opset < 2 ? "paddings" : "pads");
  std::vector<int64_t> axes = call.has(3) ? call.ints_of(3, "the axes") : std::vector<int64_t>{};
  if (axes.empty()) {
    for (int i = 0; i < rank; ++i) axes.push_back(i);
  }
  if (given.size() != 2 * axes.size()) call.reject("there must be two pads for each axis");
  std::vector<Dim> before(static_cast<size_t>(rank), 0);
  std::vector<Dim> after(static_cast<size_t>(rank), 0);
  for (size_t i = 0; i < axes.size(); ++i) {
    const auto axis = static_cast<size_t>(call.axis(axes[i], rank));
    before[axis] = given[i];
    after[axis] = given[i + axes.size()];
  }
  return {Dims(std::span<const Dim>(before)), Dims(std::span<const Dim>(after))};
}

// What negative pads cut off, they cut off before the others are added.
Value cropped(NodeCall& call, Value x, Sides& sides) {
  for (int axis = 0; axis < sides.before.rank(); ++axis) {
    const int64_t front = std::max<int64_t>(0, -sides.before[axis].constant());
    const int64_t back = std::max<int64_t>(0, -sides.after[axis].constant());
    if (front == 0 && back == 0) continue;
    const Dim size = call.b.shape(x)[axis];
    x = p::slice(call.b, x, p::Range{.axis = axis, .start = front, .end = size - Dim(back)});
    if (front > 0) sides.before[axis] = 0;
    if (back > 0) sides.after[axis] = 0;
  }
  return x;
}

void import_pad(NodeCall& call) {
  Sides sides = sides_of(call);
  const std::string mode = call.text("mode", "constant");
  call.require(mode == "constant" || mode == "reflect" || mode == "edge" || mode == "wrap",
               "a mode that is not constant, reflect, edge or wrap");
  double value = call.real("value", 0);
  if (call.has(2) && call.opset >= 11) value = call.real_of(2, "the value");
  Value x = cropped(call, call.value(0), sides);
  if (mode != "wrap") {
    return call.set_same(
        p::pad(call.b, x, {.before = sides.before, .after = sides.after, .mode = mode, .value = value}));
  }
  for (int axis = 0; axis < sides.before.rank(); ++axis) {
    if (sides.before[axis] == Dim(0) && sides.after[axis] == Dim(0)) continue;
    const Dim size = call.b.shape(x)[axis];
    std::vector<Value> parts;
    if (sides.before[axis] != Dim(0)) {
      parts.push_back(p::slice(call.b, x, p::Range{.axis = axis, .start = size - sides.before[axis]}));
    }
    parts.push_back(x);
    if (sides.after[axis] != Dim(0)) {
      parts.push_back(p::slice(call.b, x, p::Range{.axis = axis, .start = 0, .end = sides.after[axis]}));
    }
    x = p::concat(call.b, parts, axis);
  }
  call.set_same(x);
}

// Small enough for its square.
int64_t block_size(NodeCall& call) {
  constexpr int64_t kMost = int64_t{1} << 16;
  const int64_t n = call.integer("blocksize", 1);
  if (n < 1 || n > kMost) call.reject(fmt::format("the blocksize is {}; expected 1 to {}", n, kMost));
  return n;
}

// [.., r*c] to places, and back: a reshape, a transpose and a reshape.
void import_depth_to_space(NodeCall& call) {
  const Dims s = call.shape(0);
  if (s.rank() != 4) call.reject("the operand must have four dimensions");
  const int64_t n = block_size(call);
  const Dim depth = floor_div(s[1], n * n);
  const bool columns_first = call.text("mode", "DCR") == "DCR";
  const Value apart = columns_first ? p::reshape(call.b, call.value(0), {s[0], n, n, depth, s[2], s[3]})
                                    : p::reshape(call.b, call.value(0), {s[0], depth, n, n, s[2], s[3]});
  const Value moved =
      columns_first ? p::transpose(call.b, apart, {0, 3, 4, 1, 5, 2}) : p::transpose(call.b, apart, {0, 1, 4, 2, 5, 3});
  call.set_same(p::reshape(call.b, moved, {s[0], depth, s[2] * n, s[3] * n}));
}
void import_space_to_depth(NodeCall& call) {
  const bool blocks_first = call.text("mode", "DCR") == "DCR";
  const Dims s = call.shape(0);
  if (s.rank() != 4) call.reject("the operand must have four dimensions");
  const int64_t n = block_size(call);
  const Dim height = floor_div(s[2], n);
  const Dim width = floor_div(s[3], n);
  const Value apart = p::reshape(call.b, call.value(0), {s[0], s[1], height, n, width, n});
  const Value moved = p::transpose(call.b, apart, blocks_first ? Dims{0, 3, 5, 1, 2, 4} : Dims{0, 1, 3, 5, 2, 4});
  call.set_same(p::reshape(call.b, moved, {s[0], s[1] * (n * n), height, width}));
}

void import_trilu(NodeCall& call) {
  Builder& b = call.b;
  const Dims s = call.shape(0);
  if (s.rank() < 2) call.reject("the operand must be matrices");
  const int64_t k = call.has(1) ? call.int_of(1, "k") : 0;
  const Value rows = p::reshape(b, count_up(call, s.back(2)), {s.back(2), 1});
  const Value columns = p::reshape(b, count_up(call, s.back()), {1, s.back()});
  const Value place = p::sub(b, columns, rows);
  const Value bound =
      call.scalar(static_cast<double>(std::clamp<int64_t>(k, -(int64_t{1} << 40), int64_t{1} << 40)), DType::i64);
  const Value keep = call.flag("upper", true) ? p::ge(b, place, bound) : p::le(b, place, bound);
  call.set_same(p::where(b, keep, call.value(0), call.scalar(0, call.dtype(0))));
}

void import_eye_like(NodeCall& call) {
  const Dims s = call.shape(0);
  if (s.rank() != 2 || !s.is_constant()) call.unsupported("of a matrix of known size");
  const int type = static_cast<int>(call.integer("dtype", call.element_type(0)));
  const int64_t k = call.integer("k", 0);
  call.require(s.shape().elements() <= kMostHostElements, "a matrix this large");
  HostTensor y{element_kind(call.in.file(), type, "EyeLike"), s, s.shape()};
  for (int64_t i = 0; i < y.stored[0]; ++i) {
    for (int64_t j = 0; j < y.stored[1]; ++j) {
      const int one = j - i == k ? 1 : 0;
      if (y.is_real()) {
        y.reals.push_back(one);
      } else {
        y.ints.emplace_back(one);
      }
    }
  }
  call.set(0, std::move(y), type);
}

constexpr RuleEntry kShapeRules[] = {
    {"Shape", import_shape},
    {"Size", import_size},
    {"Constant", import_constant},
    {"ConstantOfShape", import_constant_of_shape},
    {"Range", import_range},
    {"Reshape", import_reshape},
    {"Squeeze", import_squeeze},
    {"Unsqueeze", import_unsqueeze},
    {"Flatten", import_flatten},
    {"Transpose", import_transpose},
    {"Expand", import_expand},
    {"Concat", import_concat},
    {"Slice", import_slice},
    {"Split", import_split},
    {"Tile", import_tile},
    {"Pad", import_pad},
    {"DepthToSpace", import_depth_to_space},
    {"SpaceToDepth", import_space_to_depth},
    {"Trilu", import_trilu},
    {"EyeLike", import_eye_like},
};

}  // namespace

RuleFamily shape_rules() { return {"", kShapeRules}; }

}  // namespace plimsoll::models::onnx_import
