// Quantized ops, as ops of reals: what is stored in bytes is computed as ONNX defines it, in f32.
#include <fmt/format.h>

#include "plimsoll/models/onnx/node.h"
#include "plimsoll/models/onnx/products.h"
#include "plimsoll/models/onnx/windows.h"
#include "plimsoll/program/ops/conv.h"
#include "plimsoll/program/ops/elementwise_binary.h"
#include "plimsoll/program/ops/elementwise_unary.h"
#include "plimsoll/program/ops/reduce.h"
#include "plimsoll/program/ops/shape.h"

namespace plimsoll::models::onnx_import {
namespace {

namespace p = program;

struct ByteRange {
  double low, high;
};

ByteRange range_of(const NodeCall& call, int type) {
  switch (type) {
    case TensorProto::UINT8:
      return {0, 255};
    case TensorProto::INT8:
      return {-128, 127};
    case TensorProto::UINT16:
      return {0, 65535};
    case TensorProto::INT16:
      return {-32768, 32767};
    case kUInt4:
      return {0, 15};
    case kInt4:
      return {-8, 7};
    default:
      call.unsupported(fmt::format("quantizing to {}", element_type_name(type)));
  }
}

// A scale or zero point as it broadcasts to x: single, along an axis, or in blocks of it.
Value along(NodeCall& call, Value one, const Dims& x, int64_t axis_given, int64_t block) {
  Builder& b = call.b;
  const Dims shape = b.shape(one);
  if (shape.elements() == Dim(1)) return p::reshape(b, one, {});
  const int axis = call.axis(axis_given, x.rank());
  if (block > 0) {  // [.., blocks, ..]: each repeated
    if (shape.rank() != x.rank()) call.reject("blocks need scales of the operand's rank");
    Dims apart;
    Dims wide;
    for (int i = 0; i < x.rank(); ++i) {
      apart.push_back(shape[i]);
      wide.push_back(shape[i]);
      if (i == axis) {
        apart.push_back(1);
        wide.push_back(block);
      }
    }
    return p::reshape(b, p::expand(b, p::reshape(b, one, apart), wide), x);
  }
  if (shape.rank() != 1) return one;
  Dims line;
  for (int i = 0; i < x.rank(); ++i) line.push_back(i == axis ? shape[0] : Dim(1));
  return p::reshape(b, one, line);
}

Value real(NodeCall& call, Value x) { return call.as(x, call.in.net.dtype()); }

Value quantized(NodeCall& call, Value x, Value scale, Value zero, int type) {
  Builder& b = call.b;
  const ByteRange range = range_of(call, type);
  Value y = p::round(b, p::div(b, x, scale));
  if (zero) y = p::add(b, y, zero);
  return p::cast(b, p::clamp(b, y, range.low, range.high), DType::i64);
}

// clamp may pass its bounds on as they are, so this is exact.
void import_quantize(NodeCall& call) {
  const Dims x = call.shape(0);
  const int64_t axis = call.integer("axis", 1);
  const int64_t block = call.integer("block_size", 0);
  int type = static_cast<int>(call.integer("output_dtype", 0));
  if (type == 0) type = call.has(2) ? call.element_type(2) : int{TensorProto::UINT8};
  const Value scale = along(call, call.value(1), x, axis, block);
  const Value zero = call.has(2) ? along(call, real(call, call.value(2)), x, axis, block) : Value{};
  call.set(0, quantized(call, real(call, call.value(0)), scale, zero, type), type);
}

Value dequantized(NodeCall& call, int at, int64_t axis, int64_t block) {
  Builder& b = call.b;
  const Dims x = call.shape(at);
  Value y = real(call, call.value(at));
  if (call.has(at + 2)) y = p::sub(b, y, along(call, real(call, call.value(at + 2)), x, axis, block));
  return p::mul(b, y, along(call, call.value(at + 1), x, axis, block));
}

void import_dequantize(NodeCall& call) {
  call.set(0, dequantized(call, 0, call.integer("axis", 1), call.integer("block_size", 0)), call.element_type(1));
}

void import_dynamic_quantize(NodeCall& call) {
  Builder& b = call.b;
  const Value x = call.value(0);
  const Value none = call.scalar(0, call.dtype(0));
  const Value low = p::minimum(b, p::min(b, x), none);
  const Value high = p::maximum(b, p::max(b, x), none);
  const Value scale = p::affine(b, p::sub(b, high, low), {.scale = 1.0 / 255});
  const Value zero = p::clamp(b, p::round(b, p::neg(b, p::div(b, low, scale))), 0, 255);
  call.set(0, quantized(call, x, scale, zero, TensorProto::UINT8), TensorProto::UINT8);
  call.set(1, scale, TensorProto::FLOAT);
  call.set(2, p::cast(b, zero, DType::i64), TensorProto::UINT8);
}

// The operand less its zero point; one for each row or column where there are several.
Value centred(NodeCall& call, int at, int zero_at, bool is_second) {
  Builder& b = call.b;
  const Value x = real(call, call.value(at));
  if (!call.has(zero_at)) return x;
  Value zero = real(call, call.value(zero_at));
  const Dims shape = b.shape(zero);
  if (shape.rank() == 1 && shape[0] != Dim(1) && !is_second) zero = p::reshape(b, zero, {shape[0], 1});
  if (shape.elements() == Dim(1)) zero = p::reshape(b, zero, {});
  return p::sub(b, x, zero);
}

void import_matmul_integer(NodeCall& call) {
  const Value y = product(call, centred(call, 0, 2, false), centred(call, 1, 3, true));
  call.set(0, p::cast(call.b, y, DType::i64), TensorProto::INT32);
}

// Scale and zero point after each operand, then those of the result.
void import_qlinear_matmul(NodeCall& call) {
  const Value a = dequantized(call, 0, call.rank(0) - 2, 0);
  const Value z = dequantized(call, 3, call.rank(3) - 1, 0);
  const Value zero = real(call, call.value(7));
  call.set(0, quantized(call, product(call, a, z), call.value(6), zero, call.element_type(7)), call.element_type(7));
}

p::ConvOptions conv_options(NodeCall& call, int weights_at) {
  Dims kernel;
  const Dims weights = call.shape(weights_at);
  for (int i = 2; i < weights.rank(); ++i) kernel.push_back(weights[i]);
  const Windows w = windows_of(call, kernel);
  return {.stride = w.stride, .padding = w.padding, .dilation = w.dilation, .groups = call.integer("group", 1)};
}

void import_conv_integer(NodeCall& call) {
  Builder& b = call.b;
  Value w = real(call, call.value(1));
  if (call.has(3)) w = p::sub(b, w, along(call, real(call, call.value(3)), call.shape(1), 0, 0));
  const Value y = p::conv(b, centred(call, 0, 2, true), w, {}, conv_options(call, 1));
  call.set(0, p::cast(b, y, DType::i64), TensorProto::INT32);
}

void import_qlinear_conv(NodeCall& call) {
  Builder& b = call.b;
  const Value x = dequantized(call, 0, 1, 0);
  const Value w = dequantized(call, 3, 0, 0);
  Value bias;
  if (call.has(8)) {  // in units of both scales
    bias = p::mul(b, real(call, call.value(8)), p::mul(b, p::reshape(b, call.value(1), {}), call.value(4)));
    bias = p::expand(b, bias, call.shape(8));
  }
  Value y = p::conv(b, x, w, {}, conv_options(call, 3));
  if (bias) y = p::add(b, y, along(call, bias, b.shape(y), 1, 0));
  const Value zero = real(call, call.value(7));
  call.set(0, quantized(call, y, call.value(6), zero, call.element_type(7)), call.element_type(7));
}

constexpr RuleEntry kQuantizeRules[] = {
    {"QuantizeLinear", import_quantize},
    {"DequantizeLinear", import_dequantize},
    {"DynamicQuantizeLinear", import_dynamic_quantize},
    {"MatMulInteger", import_matmul_integer},
    {"QLinearMatMul", import_qlinear_matmul},
    {"ConvInteger", import_conv_integer},
    {"QLinearConv", import_qlinear_conv},
};

}  // namespace

RuleFamily quantize_rules() { return {"", kQuantizeRules}; }

}  // namespace plimsoll::models::onnx_import
