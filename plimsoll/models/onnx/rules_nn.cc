// Convolutions, dropout, resizing and sampling at places that are computed.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "plimsoll/models/onnx/heads.h"
#include "plimsoll/models/onnx/products.h"
#include "plimsoll/models/onnx/resize.h"
#include "plimsoll/models/onnx/windows.h"
#include "plimsoll/program/ops/along_axis.h"
#include "plimsoll/program/ops/constant.h"
#include "plimsoll/program/ops/conv.h"
#include "plimsoll/program/ops/dropout.h"
#include "plimsoll/program/ops/elementwise_binary.h"
#include "plimsoll/program/ops/elementwise_unary.h"
#include "plimsoll/program/ops/index.h"
#include "plimsoll/program/ops/matmul.h"
#include "plimsoll/program/ops/pad.h"
#include "plimsoll/program/ops/pool.h"
#include "plimsoll/program/ops/shape.h"
#include "plimsoll/program/ops/slice.h"

namespace plimsoll::models::onnx_import {
namespace {

namespace p = program;

Dims kernel_of(const Dims& weights) {
  Dims kernel;
  for (int i = 2; i < weights.rank(); ++i) kernel.push_back(weights[i]);
  return kernel;
}

void import_conv(NodeCall& call) { call.set_same(convolution(call)); }

// Without padding, and then cut to what the pads or the wanted size say.
void import_conv_transpose(NodeCall& call) {
  Builder& b = call.b;
  const Dims weights = call.shape(1);
  Windows w = windows_of(call, kernel_of(weights));
  const int spatial = w.kernel.rank();
  std::vector<int64_t> extra = call.integers("output_padding");
  extra.resize(static_cast<size_t>(spatial), 0);
  const std::vector<int64_t> wanted = call.integers("output_shape");
  const auto dims = static_cast<size_t>(spatial);
  if (!wanted.empty() && wanted.size() != dims && wanted.size() != dims + 2) {
    call.reject(fmt::format("output_shape has {} numbers, expected {}", wanted.size(), spatial));
  }
  const std::string automatic = call.text("auto_pad", "NOTSET");
  const bool is_same = automatic.starts_with("SAME");
  if (wanted.empty() && !is_same) {
    bool plain = true;
    for (int i = 0; i < spatial; ++i) plain = plain && extra[static_cast<size_t>(i)] < w.stride[i].constant();
    if (plain) {
      return call.set_same(p::conv_transpose(b, call.value(0), call.value(1), call.value_or(2, {}),
                                             {.stride = w.stride,
                                              .padding = w.padding,
                                              .dilation = w.dilation,
                                              .output_padding = dims_from(extra),
                                              .groups = call.integer("group", 1)}));
    }
  }
  const Dims in = call.shape(0);
  Value y = p::conv_transpose(b, call.value(0), call.value(1), call.value_or(2, {}),
                              {.stride = w.stride, .dilation = w.dilation, .groups = call.integer("group", 1)});
  for (int i = 0; i < spatial; ++i) {
    const auto at = static_cast<size_t>(i);
    const Dim full = b.shape(y)[i + 2];
    call.require(full.is_constant() && in[i + 2].is_constant(), "sizes that are known");
    int64_t front = w.padding[i].constant();
    int64_t size = full.constant() - front - w.padding[i + spatial].constant() + extra[at];
    if (is_same || !wanted.empty()) {
      size = wanted.empty() ? in[i + 2].constant() * w.stride[i].constant() : wanted[at + wanted.size() - dims];
      const int64_t all = full.constant() + extra[at] - size;
      front = automatic == "SAME_UPPER" ? all / 2 : all - all / 2;
      if (!is_same) front = all / 2;
      front = std::max<int64_t>(front, 0);
    }
    const int64_t end = front + size;
    if (end > full.constant()) {
      Dims none = dims_from(std::vector<int64_t>(static_cast<size_t>(spatial + 2), 0));
      Dims after = none;
      after[i + 2] = end - full.constant();
      if (call.has(2)) call.unsupported("output_padding of at least the stride, with a bias");
      y = p::pad(b, y, {.before = none, .after = after});
    }
    y = p::slice(b, y, p::Range{.axis = i + 2, .start = front, .end = end});
  }
  call.set_same(y);
}

void import_dropout(NodeCall& call) {
  double rate = call.real("ratio", 0.5);
  if (call.has(1)) rate = call.real_of(1, "the ratio");
  bool in_training = call.opset < 7 ? !call.flag("is_test") : false;
  if (call.has(2)) in_training = call.int_of(2, "training_mode") != 0;
  if (call.in.options().as_written && in_training && rate > 0) call.unsupported("what is dropped is random");
  Net& net = call.in.net;
  const Value x = net.training() && rate > 0 ? without_nans(call, call.value(0)) : call.value(0);
  call.set_same(net.training() && rate > 0 ? p::dropout(call.b, x, net.dropout_seed(), {.rate = rate}) : x);
  if (in_training && !net.training()) call.in.note("dropout in training mode is left out in inference");
  if (call.wants(1)) call.set(1, host_fill(ElementKind::boolean, call.shape(0), 1), TensorProto::BOOL);
}

// One dimension of a resize: a matrix, or places to take.
Value resize_axis(NodeCall& call, Value x, int axis, const ResizeLine& line) {
  Builder& b = call.b;
  if (line.is_same()) return x;
  if (!line.places.empty()) {
    std::vector<Dim> places(line.places.begin(), line.places.end());
    return p::gather(b, x, call.in.constant(host_ints(places), "places"), axis);
  }
  HostTensor matrix{ElementKind::real, {line.from, line.to}, Shape{line.from, line.to}, {}, line.weights};
  const Value weights = call.in.constant(matrix, "resize");
  const int rank = b.shape(x).rank();
  Dims swap;
  for (int i = 0; i < rank; ++i) swap.push_back(i == axis ? rank - 1 : (i == rank - 1 ? axis : i));
  const bool is_last = axis == rank - 1;
  const Value last = is_last ? x : p::transpose(b, x, swap);
  const Dims shape = b.shape(last);
  Dims out = shape;
  out[rank - 1] = line.to;
  Dim rows = 1;
  for (int i = 0; i + 1 < rank; ++i) rows = rows * shape[i];
  const Value flat = p::matmul(b, p::reshape(b, last, {rows, line.from}), weights);
  const Value y = p::reshape(b, flat, out);
  return is_last ? y : p::transpose(b, y, swap);
}

void import_resize(NodeCall& call) {
  Value x = call.as(call.value(0), call.in.net.dtype());
  for (const ResizeLine& line : resize_lines(call)) x = resize_axis(call, x, line.axis, line);
  call.set_same(call.as(x, call.dtype(0)));
}

// Each element by its neighbours along the channels.
void import_lrn(NodeCall& call) {
  Builder& b = call.b;
  const int64_t size = call.integer("size", 1);
  if (size < 1 || size > 1024) call.reject("a size that makes no sense");
  const Value x = call.value(0);
  const Dims shape = call.shape(0);
  Dims before = dims_from(std::vector<int64_t>(static_cast<size_t>(shape.rank()), 0));
  Dims after = before;
  before[1] = (size - 1) / 2;
  after[1] = size - 1 - (size - 1) / 2;
  const Value wide = p::pad(b, p::square(b, x), {.before = before, .after = after});
  Value sum;
  for (int64_t i = 0; i < size; ++i) {
    const Value shifted = p::slice(b, wide, p::Range{.axis = 1, .start = i, .end = shape[1] + Dim(i)});
    sum = sum ? p::add(b, sum, shifted) : shifted;
  }
  const double alpha = call.real("alpha", 1e-4) / static_cast<double>(size);
  const Value base = p::affine(b, sum, {.scale = alpha, .shift = call.real("bias", 1)});
  call.set_same(p::mul(b, x, p::pow(b, base, -call.real("beta", 0.75))));
}

// ---- sampling ----

// Elements of x[batch, channels, height * width] at places of a plane that may lie outside of it, and what they count.
struct Sampling {
  Value x;
  int64_t height, width;
  bool is_zero_outside;
};

// 1 where a place is within [0, size), else 0.
Value within(Builder& b, Value place, int64_t size) {
  const DType dtype = b.type(place).dtype;
  const auto number = [&](int64_t n) { return p::fill(b, static_cast<double>(n), {dtype, {}}); };
  return p::mul(b, p::cast(b, p::ge(b, place, number(0)), dtype), p::cast(b, p::le(b, place, number(size - 1)), dtype));
}

// The elements at whole places [batch, points], times `weight` where there is one.
Value sampled(Builder& b, const Sampling& from, Value row, Value column, Value weight) {
  if (from.is_zero_outside) {
    const Value inside = p::mul(b, within(b, row, from.height), within(b, column, from.width));
    weight = weight ? p::mul(b, weight, inside) : inside;
  }
  const auto index = [&](Value place, int64_t size) {
    return p::cast(b, p::clamp(b, place, 0, static_cast<double>(size - 1)), DType::i64);
  };
  const Value width = p::fill(b, static_cast<double>(from.width), {DType::i64, {}});
  const Value flat = p::add(b, p::mul(b, index(row, from.height), width), index(column, from.width));
  const Dims points = b.shape(flat);
  const Dims line = {points[0], 1, points[1]};
  const Dims all = {points[0], b.shape(from.x)[1], points[1]};
  const Value found = p::gather_elements(b, from.x, p::expand(b, p::reshape(b, flat, line), all), 2);
  return weight ? p::mul(b, found, p::reshape(b, weight, line)) : found;
}

// Between four neighbours by how near they are.
Value sampled_between(Builder& b, const Sampling& from, Value row, Value column) {
  const Value top = p::floor(b, row);
  const Value left = p::floor(b, column);
  const Value down = p::sub(b, row, top);
  const Value right = p::sub(b, column, left);
  Value sum;
  for (const bool is_below : {false, true}) {
    for (const bool is_right : {false, true}) {
      const Value by_row = is_below ? down : p::affine(b, down, {.scale = -1, .shift = 1});
      const Value by_column = is_right ? right : p::affine(b, right, {.scale = -1, .shift = 1});
      const Value part = sampled(b, from, is_below ? p::affine(b, top, {.shift = 1}) : top,
                                 is_right ? p::affine(b, left, {.shift = 1}) : left, p::mul(b, by_row, by_column));
      sum = sum ? p::add(b, sum, part) : part;
    }
  }
  return sum;
}

void import_grid_sample(NodeCall& call) {
  Builder& b = call.b;
  const Dims x = call.shape(0);
  const Dims grid = call.shape(1);
  call.require(x.rank() == 4 && grid.rank() == 4, "of images, with two numbers for each point");
  call.require(x[2].is_constant() && x[3].is_constant(), "images of a size that is known");
  const std::string mode = call.text("mode", "linear");
  const bool is_linear = mode == "linear" || mode == "bilinear";
  call.require(is_linear || mode == "nearest", "linear or nearest");
  const std::string padding = call.text("padding_mode", "zeros");
  call.require(padding == "zeros" || padding == "border", "zeros or the border outside of the image");
  const Sampling from{p::reshape(b, call.value(0), {x[0], x[1], x[2] * x[3]}), x[2].constant(), x[3].constant(),
                      padding == "zeros"};
  const Value points = call.value(1);
  const auto place = [&](int64_t which, int64_t size) {  // -1 to 1 becomes 0 to size - 1
    const Value one = p::slice(b, points, p::Range{.axis = 3, .start = which, .end = which + 1});
    const auto n = static_cast<double>(size);
    const double half = (call.flag("align_corners") ? n - 1 : n) / 2;
    const Value at =
        p::affine(b, p::reshape(b, one, {grid[0], grid[1] * grid[2]}), {.scale = half, .shift = (n - 1) / 2});
    return padding == "border" ? p::clamp(b, at, 0, n - 1) : at;
  };
  const Value column = place(0, from.width);
  const Value row = place(1, from.height);
  const Value y =
      is_linear ? sampled_between(b, from, row, column) : sampled(b, from, p::round(b, row), p::round(b, column), {});
  call.set_same(p::reshape(b, y, {x[0], x[1], grid[1], grid[2]}));
}

// The points of a plane from -1 to 1, moved by a matrix for each sample.
void import_affine_grid(NodeCall& call) {
  Builder& b = call.b;
  const std::vector<Dim> size = call.dims_of(1, "the size");
  call.require(size.size() == 4 && size[2].is_constant() && size[3].is_constant(), "of images of a size that is known");
  const int64_t height = size[2].constant();
  const int64_t width = size[3].constant();
  call.require(height > 0 && width > 0 && height <= kMostHostElements / 3 / width, "a grid this large");
  const bool to_corners = call.flag("align_corners");
  const auto place = [&](int64_t i, int64_t n) {
    const auto all = static_cast<double>(n);
    const auto at = static_cast<double>(i);
    if (to_corners) return n == 1 ? -1 : 2 * at / (all - 1) - 1;
    return (2 * at + 1) / all - 1;
  };
  HostTensor points{ElementKind::real, {1, height * width, 3}, Shape{1, height * width, 3}};
  for (int64_t i = 0; i < height; ++i) {
    for (int64_t j = 0; j < width; ++j) points.reals.insert(points.reals.end(), {place(j, width), place(i, height), 1});
  }
  const Value moved = p::matmul(b, call.in.constant(points, "grid"), call.value(0), {.transpose_b = true});
  call.set_same(p::reshape(b, moved, {size[0], height, width, 2}));
}

constexpr RuleEntry kNnRules[] = {
    {"Conv", import_conv},
    {"ConvTranspose", import_conv_transpose},
    {"Dropout", import_dropout},
    {"Resize", import_resize},
    {"Upsample", import_resize},
    {"LRN", import_lrn},
    {"GridSample", import_grid_sample},
    {"AffineGrid", import_affine_grid},
};

}  // namespace

Value convolution(NodeCall& call) {
  const Windows w = windows_of(call, kernel_of(call.shape(1)));
  return p::conv(
      call.b, call.value(0), call.value(1), call.value_or(2, {}),
      {.stride = w.stride, .padding = w.padding, .dilation = w.dilation, .groups = call.integer("group", 1)});
}

RuleFamily nn_rules() { return {"", kNnRules}; }

}  // namespace plimsoll::models::onnx_import
