#include "plimsoll/program/ops/quantize.h"

#include <fmt/format.h>

#include "plimsoll/program/quantization.h"
#include "plimsoll/program/shape_rules.h"

namespace plimsoll::program {
namespace {

// The first `count` dimensions.
Dims first_of(const Dims& shape, int count) { return Dims(std::span(shape.begin(), shape.begin() + count)); }

std::vector<Type> infer_bytes(const OpCall& call, int dimensions_of_scale) {
  call.require(call.input(0).dtype == DType::f32, "x must be f32");
  const DType dtype = dtype_attribute(call);
  call.require(is_quantized(dtype), "dtype must be i8 or u8");
  return {{dtype, call.shape(0)}, {DType::f32, first_of(call.shape(0), dimensions_of_scale)}};
}

std::vector<Type> infer_quantize(const OpCall& call) {
  call.require(!call.shape(0).empty(), "x must be [batch, ..]");
  return infer_bytes(call, 1);
}

std::vector<Type> infer_quantize_rows(const OpCall& call) {
  call.require(!call.shape(0).empty(), "x must have at least one dimension");
  return infer_bytes(call, call.shape(0).rank() - 1);
}

void require_scale(const OpCall& call, int i, const Dims& shape) {
  const Type expected{DType::f32, shape};
  if (call.input(i) != expected) {
    call.reject(fmt::format("{} must be {}", call.def.input_name(i), expected.text()));
  }
}

// Operands x, w, x_scale, w_scale, bias?; x with a scale for each place in its first `scaled` dimensions.
void require_product(const OpCall& call, int scaled) {
  call.require(is_quantized(call.input(0).dtype), "x must be i8 or u8");
  call.require(call.input(1).dtype == DType::i8, "w must be i8");
  call.require(!call.shape(1).empty(), "w must have at least one dimension");
  require_scale(call, 2, first_of(call.shape(0), scaled));
  require_scale(call, 3, first_of(call.shape(1), 1));
  if (call.arity() > 4) require_scale(call, 4, first_of(call.shape(1), 1));
}

std::vector<Type> infer_conv(const OpCall& call) {
  const Dims y = conv_shape(call, call.shape(0), call.shape(1));
  require_product(call, 1);
  return {{DType::f32, y}};
}

std::vector<Type> infer_linear(const OpCall& call) {
  call.require(!call.shape(0).empty(), "x must have at least one dimension");
  call.require_rank(1, 2);
  call.require(call.shape(0).back() == call.shape(1)[1], "the last dimension of x must be that of w");
  const int rows = call.shape(0).rank() - 1;
  require_product(call, rows);
  Dims y = call.shape(0);
  y[rows] = call.shape(1)[0];
  return {{DType::f32, y}};
}

std::vector<Type> infer_embedding(const OpCall& call) {
  call.require_rank(0, 2);
  call.require(call.input(0).dtype == DType::i8, "w must be i8");
  require_integer(call, 1);
  require_scale(call, 2, first_of(call.shape(0), 1));
  Dims y = call.shape(1);
  y.push_back(call.shape(0)[1]);
  return {{DType::f32, y}};
}

// Two for each product of the sums, and two to scale each.
Dim product_flops(const OpCall& call) {
  const Dims& w = call.shape(1);
  const Dim sums = call.output(0).shape.elements();
  return Dim(2) * sums * Dims(std::span(w.begin() + 1, w.end())).elements() + Dim(2) * sums;
}

// What is taken, the index and the scales.
Dim taken_bytes(const OpCall& call) {
  const Dim taken = call.output(0).shape.elements();
  return taken + call.output(0).bytes() + call.input(1).bytes() + Dim(4) * call.shape(1).elements();
}

std::vector<Value> operands(const Quantized& x, const Quantized& w, Value bias) {
  std::vector<Value> all = {x.bytes, w.bytes, x.scale, w.scale};
  if (bias) all.push_back(bias);
  return all;
}

Quantized emit_bytes(Builder& b, std::string_view op, Value x, DType dtype) {
  const Value bytes = b.emit(op, {x}, {{"dtype", dtype}});
  return {bytes, b.last_outputs()[1]};
}

}  // namespace

Quantized quantize(Builder& b, Value x, DType dtype) { return emit_bytes(b, "quantize", x, dtype); }
Quantized quantize_rows(Builder& b, Value x, DType dtype) { return emit_bytes(b, "quantize_rows", x, dtype); }

Value conv_i8(Builder& b, const Quantized& x, const Quantized& w, Value bias, const ConvOptions& options) {
  const std::vector<NamedAttribute> attributes = {{"stride", options.stride},
                                                  {"padding", options.padding},
                                                  {"dilation", options.dilation},
                                                  {"groups", options.groups}};
  return b.emit("conv_i8", operands(x, w, bias), attributes);
}

Value linear_i8(Builder& b, const Quantized& x, const Quantized& w, Value bias) {
  return b.emit("linear_i8", operands(x, w, bias));
}

Value embedding_i8(Builder& b, const Quantized& w, Value index) {
  return b.emit("embedding_i8", {w.bytes, index, w.scale});
}

void register_quantize(OpTable& table) {
  const AttributeSpec dtype = {"dtype", AttributeKind::word, Attribute(DType::i8)};
  table.add({.name = "quantize",
             .inputs = {"x"},
             .outputs = {"bytes", "scale"},
             .attributes = {dtype},
             .infer = infer_quantize});
  table.add({.name = "quantize_rows",
             .inputs = {"x"},
             .outputs = {"bytes", "scale"},
             .attributes = {dtype},
             .infer = infer_quantize_rows});
  const std::vector<std::string> inputs = {"x", "w", "x_scale", "w_scale", "bias?"};
  table.add({.name = "conv_i8",
             .inputs = inputs,
             .attributes = conv_attributes(),
             .infer = infer_conv,
             .flops = product_flops});
  table.add({.name = "linear_i8", .inputs = inputs, .infer = infer_linear, .flops = product_flops});
  table.add({.name = "embedding_i8",
             .inputs = {"w", "index", "w_scale"},
             .infer = infer_embedding,
             .bytes = taken_bytes,
             .traits = {.indices = OpTraits::Indices{}}});
}

}  // namespace plimsoll::program
