// Convolutions, dropout and resizing.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "plimsoll/models/onnx/node.h"
#include "plimsoll/models/onnx/products.h"
#include "plimsoll/models/onnx/resize.h"
#include "plimsoll/models/onnx/windows.h"
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
      size = wanted.empty() ? in[i + 2].constant() * w.stride[i].constant()
                            : wanted[at + (wanted.size() == static_cast<size_t>(spatial) ? 0 : 2)];
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
  const Value x = call.value(0);
  Net& net = call.in.net;
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

constexpr RuleEntry kNnRules[] = {
    {"Conv", import_conv},       {"ConvTranspose", import_conv_transpose},
    {"Dropout", import_dropout}, {"Resize", import_resize},
    {"Upsample", import_resize}, {"LRN", import_lrn},
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
