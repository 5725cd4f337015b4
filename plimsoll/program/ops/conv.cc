#include "plimsoll/program/ops/conv.h"

#include <fmt/format.h>

#include "plimsoll/program/autodiff.h"
#include "plimsoll/program/quantization.h"
#include "plimsoll/program/window.h"

namespace plimsoll::program {
namespace {

void require_groups(const OpCall& call, Dim channels) {
  const int64_t groups = call.integer("groups");
  if (groups >= 1 && (!channels.is_constant() || channels.constant() % groups == 0)) return;
  call.reject(fmt::format("dimension 0 of w ({}) must be a multiple of groups ({})", channels.text(), groups));
}

void require_channels(const OpCall& call, Dim found, Dim expected, std::string_view rule) {
  if (found != expected)
    call.reject(fmt::format("x has {} channels, expected {}: {}", found.text(), expected.text(), rule));
}

void require_bias(const OpCall& call, Dim channels) {
  if (call.arity() < 3) return;
  const Type expected{call.input(0).dtype, {channels}};
  if (call.input(2) != expected) call.reject(fmt::format("bias must be {}", expected.text()));
}

Dims conv_transpose_shape(const OpCall& call, const Dims& x, const Dims& w) {
  const Window window = window_of(call, spatial(call, w));
  call.require(x.rank() == w.rank(), "x and w must have as many dimensions");
  require_groups(call, w[0]);
  require_channels(call, x[1], w[0], "dimension 0 of w");
  const Dims extra = spread_over(call, "output_padding", window.rank(), 0);
  Dims y = {x[0], w[1] * call.integer("groups")};
  for (int axis = 0; axis < window.rank(); ++axis) {
    const bool fits = extra[axis].constant() >= 0 && extra[axis].constant() < window.stride[axis].constant();
    call.require(fits, "output_padding must be less than the stride");
    const Dim size = window.covered(axis, x[axis + 2]) + extra[axis];
    call.require(!size.is_constant() || size.constant() >= 1, "the padding must leave something of the result");
    y.push_back(size);
  }
  return y;
}

using ShapeRule = Dims (*)(const OpCall&, const Dims&, const Dims&);

// The rule of both convolutions, transposed or not.
auto infer_with(ShapeRule rule) {
  return [rule](const OpCall& call) -> std::vector<Type> {
    call.require_floating(0);
    call.require_same_dtype(0, 1);
    const Dims y = rule(call, call.shape(0), call.shape(1));
    require_bias(call, y[1]);
    return {{call.input(0).dtype, y}};
  };
}

void require_result(const OpCall& call, const Dims& y) {
  if (call.shape(0) != y) call.reject(fmt::format("dy must be {}, the shape of the result", y.text()));
}

std::vector<Type> infer_backward_data(const OpCall& call) {
  call.require_same_dtype(0, 1);
  require_result(call, conv_shape(call, call.dims("shape"), call.shape(1)));
  return {{call.input(0).dtype, call.dims("shape")}};
}

std::vector<Type> infer_backward_weights(const OpCall& call) {
  call.require_same_dtype(0, 1);
  require_result(call, conv_shape(call, call.shape(1), call.dims("shape")));
  return {{call.input(0).dtype, call.dims("shape")}};
}

std::vector<Type> infer_channel_sum(const OpCall& call) {
  call.require_floating(0);
  call.require(call.shape(0).rank() >= 2, "x must be [batch, channels, ..]");
  return {{call.input(0).dtype, {call.shape(0)[1]}}};
}

ConvOptions options_of(const Gradient& g) {
  return {g.attribute("stride").dims(), g.attribute("padding").dims(), g.attribute("dilation").dims(),
          g.attribute("groups").dim().constant()};
}

void differentiate_bias(Gradient& g) {
  if (g.arity() > 2 && g.wants(2)) g.set(2, channel_sum(g.b, g.of_output()));
}

// The gradient of the weights first: it is the last to read x, which is then free before dx is made.
void differentiate_conv(Gradient& g) {
  const Value dy = g.of_output();
  const Value x = g.input(0);
  const Value w = g.input(1);
  if (g.wants(1)) g.set(1, conv_backward_weights(g.b, dy, x, g.b.shape(w), options_of(g)));
  differentiate_bias(g);
  if (g.wants(0)) g.set(0, conv_backward_data(g.b, dy, w, g.b.shape(x), options_of(g)));
}

// y = conv_backward_data(x, w), so dy stands where conv has its input, and x where conv has the gradient of its result.
void differentiate_conv_transpose(Gradient& g) {
  const Value dy = g.of_output();
  const Value x = g.input(0);
  const Value w = g.input(1);
  if (g.wants(1)) g.set(1, conv_backward_weights(g.b, x, dy, g.b.shape(w), options_of(g)));
  differentiate_bias(g);
  if (g.wants(0)) g.set(0, conv(g.b, dy, w, {}, options_of(g)));
}

// Two for each product: every element of `side`, the result of a convolution, with the weights of one of its channels.
Dim product_flops(const Dims& side, const Dims& w) {
  return Dim(2) * side.elements() * Dims(std::span(w.begin() + 1, w.end())).elements();
}

Dim bias_flops(const OpCall& call) { return call.arity() > 2 ? call.output(0).shape.elements() : Dim(0); }

std::vector<AttributeSpec> attributes_and(const AttributeSpec& more) {
  std::vector<AttributeSpec> all = conv_attributes();
  all.push_back(more);
  return all;
}

Value emit(Builder& b, std::string_view op, const std::vector<Value>& inputs, const ConvOptions& options,
           const std::vector<NamedAttribute>& more = {}) {
  std::vector<NamedAttribute> attributes = {{"stride", options.stride},
                                            {"padding", options.padding},
                                            {"dilation", options.dilation},
                                            {"groups", options.groups}};
  attributes.insert(attributes.end(), more.begin(), more.end());
  return b.emit(op, inputs, attributes);
}

std::vector<Value> operands(Value x, Value w, Value bias) { return bias ? std::vector{x, w, bias} : std::vector{x, w}; }

std::optional<QuantizedForm> quantized_conv(const OpCall&) {
  return QuantizedForm{.op = "conv_i8", .image = true, .most_products = kMostProducts};
}

}  // namespace

Dims conv_shape(const OpCall& call, const Dims& x, const Dims& w) {
  const Window window = window_of(call, spatial(call, w));
  call.require(x.rank() == w.rank(), "x and w must have as many dimensions");
  require_groups(call, w[0]);
  require_channels(call, x[1], w[1] * call.integer("groups"), "groups times dimension 1 of w");
  Dims y = {x[0], w[0]};
  for (const Dim count : window_counts(call, window, x)) y.push_back(count);
  return y;
}

std::vector<AttributeSpec> conv_attributes() {
  std::vector<AttributeSpec> all = window_attributes();
  all.push_back({"groups", AttributeKind::integer, Attribute(1)});
  return all;
}

Value conv(Builder& b, Value x, Value w, Value bias, const ConvOptions& options) {
  return emit(b, "conv", operands(x, w, bias), options);
}

Value conv_transpose(Builder& b, Value x, Value w, Value bias, const ConvTransposeOptions& options) {
  const auto& [stride, padding, dilation, output_padding, groups] = options;
  return emit(b, "conv_transpose", operands(x, w, bias), {stride, padding, dilation, groups},
              {{"output_padding", output_padding}});
}

Value conv_backward_data(Builder& b, Value dy, Value w, const Dims& shape, const ConvOptions& options) {
  return emit(b, "conv_backward_data", {dy, w}, options, {{"shape", shape}});
}

Value conv_backward_weights(Builder& b, Value dy, Value x, const Dims& shape, const ConvOptions& options) {
  return emit(b, "conv_backward_weights", {dy, x}, options, {{"shape", shape}});
}

Value channel_sum(Builder& b, Value x) { return b.emit("channel_sum", {x}); }

void register_conv(OpTable& table) {
  const AttributeSpec shape{"shape", AttributeKind::dims, {}};
  table.add({.name = "conv",
             .inputs = {"x", "w", "bias?"},
             .attributes = conv_attributes(),
             .infer = infer_with(conv_shape),
             .gradient = differentiate_conv,
             .flops = [](const OpCall& c) { return product_flops(c.output(0).shape, c.shape(1)) + bias_flops(c); },
             .traits = {.quantized = quantized_conv}});
  table.add({.name = "conv_transpose",
             .inputs = {"x", "w", "bias?"},
             .attributes = attributes_and({"output_padding", AttributeKind::integers, Attribute(Dims())}),
             .infer = infer_with(conv_transpose_shape),
             .gradient = differentiate_conv_transpose,
             .flops = [](const OpCall& c) { return product_flops(c.shape(0), c.shape(1)) + bias_flops(c); }});
  table.add({.name = "conv_backward_data",
             .inputs = {"dy", "w"},
             .outputs = {"dx"},
             .attributes = attributes_and(shape),
             .infer = infer_backward_data,
             .flops = [](const OpCall& c) { return product_flops(c.shape(0), c.shape(1)); }});
  table.add({.name = "conv_backward_weights",
             .inputs = {"dy", "x"},
             .outputs = {"dw"},
             .attributes = attributes_and(shape),
             .infer = infer_backward_weights,
             .flops = [](const OpCall& c) { return product_flops(c.shape(0), c.output(0).shape); }});
  table.add({.name = "channel_sum", .inputs = {"x"}, .infer = infer_channel_sum, .flops = [](const OpCall& c) {
               return c.shape(0).elements();
             }});
}

}  // namespace plimsoll::program
