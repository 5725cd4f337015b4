// Windows of signals, products along a dimension, shifts of bits, cuts to a size.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numbers>

#include "plimsoll/models/onnx/node.h"
#include "plimsoll/program/ops/constant.h"
#include "plimsoll/program/ops/elementwise_binary.h"
#include "plimsoll/program/ops/elementwise_unary.h"
#include "plimsoll/program/ops/pad.h"
#include "plimsoll/program/ops/slice.h"

namespace plimsoll::models::onnx_import {
namespace {

namespace p = program;

// a0 - a1 cos + a2 cos of the double angle.
void cosine_window(NodeCall& call, double a0, double a1, double a2) {
  const int64_t size = call.int_of(0, "the size");
  if (size < 1 || size > kMostHostElements) call.reject("a size that makes no sense");
  const bool periodic = call.flag("periodic", true);
  const auto length = static_cast<double>(std::max<int64_t>(1, periodic ? size : size - 1));
  HostTensor y{ElementKind::real, {size}, Shape{size}};
  for (int64_t i = 0; i < size; ++i) {
    const double angle = 2 * std::numbers::pi * static_cast<double>(i) / length;
    y.reals.push_back(a0 - a1 * std::cos(angle) + a2 * std::cos(2 * angle));
  }
  call.set(0, std::move(y), static_cast<int>(call.integer("output_datatype", TensorProto::FLOAT)));
}
void import_hann(NodeCall& call) { cosine_window(call, 0.5, 0.5, 0); }
void import_hamming(NodeCall& call) { cosine_window(call, 25.0 / 46, 21.0 / 46, 0); }
void import_blackman(NodeCall& call) { cosine_window(call, 0.42, 0.5, 0.08); }

// Element by element: dimensions that are short.
void import_cumprod(NodeCall& call) {
  constexpr int64_t kMostParts = 256;
  const int axis = call.axis(call.int_of(1, "the axis"), call.rank(0));
  const Dim size = call.shape(0)[axis];
  call.require(size.is_constant() && size.constant() > 0 && size.constant() <= kMostParts, "a short dimension");
  const int64_t count = size.constant();
  const bool reverse = call.flag("reverse");
  std::vector<Value> parts(static_cast<size_t>(count));
  Value product;
  for (int64_t i = 0; i < count; ++i) {
    const int64_t at = reverse ? count - 1 - i : i;
    const Value one = p::slice(call.b, call.value(0), p::Range{.axis = axis, .start = at, .end = at + 1});
    const Value next = product ? p::mul(call.b, product, one) : one;
    const Value before = product ? product : p::fill(call.b, 1, call.b.type(one));
    parts[static_cast<size_t>(at)] = call.flag("exclusive") ? before : next;
    product = next;
  }
  call.set_same(count == 1 ? parts[0] : p::concat(call.b, parts, axis));
}

// Of numbers that f32 holds exactly.
void import_bit_shift(NodeCall& call) {
  Builder& b = call.b;
  const int type = call.element_type(0);
  call.require(type == TensorProto::UINT8 || type == TensorProto::UINT16, "of 8 or 16 bits");
  const Value x = p::cast(b, call.compact(0), DType::f32);
  const Value places = p::cast(b, call.compact(1), DType::f32);
  const bool left = call.text("direction", "LEFT") == "LEFT";
  const Value power = p::pow(b, call.scalar(2, DType::f32), left ? places : p::neg(b, places));
  Value y = p::mul(b, x, power);
  if (left) {
    const double limit = type == TensorProto::UINT8 ? 256 : 65536;
    const Value over = p::floor(b, p::affine(b, y, {.scale = 1 / limit}));
    y = p::sub(b, y, p::affine(b, over, {.scale = limit}));
  }
  call.set_same(p::cast(b, p::floor(b, y), DType::i64));
}

void import_bitwise_not(NodeCall& call) {
  const int type = call.element_type(0);
  const bool is_unsigned = type == TensorProto::UINT8 || type == TensorProto::UINT16 || type == TensorProto::UINT32;
  call.require(type != TensorProto::UINT64, "of 64 bits without a sign");
  const double all = is_unsigned ? std::exp2(static_cast<double>(element_bits(type))) - 1 : -1;
  call.set_same(p::sub(call.b, call.scalar(all, DType::i64), call.value(0)));
}

void import_center_crop_pad(NodeCall& call) {
  const int rank = call.rank(0);
  std::vector<int64_t> axes = call.integers("axes");
  if (axes.empty()) {
    for (int i = 0; i < rank; ++i) axes.push_back(i);
  }
  const std::vector<int64_t> sizes = call.ints_of(1, "the shape");
  if (sizes.size() != axes.size()) call.reject("there must be a size for each axis");
  Value x = call.value(0);
  for (size_t i = 0; i < axes.size(); ++i) {
    const int axis = call.axis(axes[i], rank);
    const int64_t from = call.b.shape(x)[axis].constant();
    const int64_t to = sizes[i];
    if (to < from) {
      const int64_t start = (from - to) / 2;
      x = p::slice(call.b, x, p::Range{.axis = axis, .start = start, .end = start + to});
    } else if (to > from) {
      std::vector<Dim> none(static_cast<size_t>(rank), 0);
      Dims before{std::span<const Dim>(none)};
      Dims after = before;
      before[axis] = (to - from) / 2;
      after[axis] = to - from - (to - from) / 2;
      x = p::pad(call.b, x, {.before = before, .after = after});
    }
  }
  call.set_same(x);
}

constexpr RuleEntry kSignalRules[] = {
    {"HannWindow", import_hann},
    {"HammingWindow", import_hamming},
    {"BlackmanWindow", import_blackman},
    {"CumProd", import_cumprod},
    {"BitShift", import_bit_shift},
    {"BitwiseNot", import_bitwise_not},
    {"CenterCropPad", import_center_crop_pad},
};

}  // namespace

RuleFamily signal_rules() { return {"", kSignalRules}; }

}  // namespace plimsoll::models::onnx_import
