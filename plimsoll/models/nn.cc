#include "plimsoll/models/nn.h"

#include <cmath>

#include "plimsoll/program/ops/conv.h"
#include "plimsoll/program/ops/elementwise_unary.h"
#include "plimsoll/program/ops/index.h"
#include "plimsoll/program/ops/linear.h"
#include "plimsoll/program/ops/loss.h"
#include "plimsoll/program/ops/norm.h"

namespace plimsoll::models {

using program::Scope;

Net::Net(const NetOptions& options) : options_(options) {}

Value Net::input(std::string_view name, const Dims& shape) { return b.input(name, {dtype(), shape}); }

Value Net::indices(std::string_view name, const Dims& shape) { return b.input(name, {DType::i64, shape}); }

Value Net::parameter(std::string_view name, const Dims& shape, const Init& init) {
  inits_.push_back(init);
  if (!keeps_masters()) return b.parameter(name, {dtype(), shape});
  copies_.push_back(program::cast(b, b.parameter(name, {wide(), shape}), dtype()));
  return copies_.back();
}

Value Net::wide_parameter(std::string_view name, const Dims& shape, const Init& init) {
  inits_.push_back(init);
  return b.parameter(name, {wide(), shape});
}

Value Net::wide_state(std::string_view name, const Dims& shape, const Init& init) {
  state_inits_.push_back(init);
  return b.state(name, {wide(), shape}, Category::parameter);
}

Value Net::constant_state(std::string_view name, const program::Type& type, const Init& init) {
  state_inits_.push_back(init);
  return b.state(name, type, Category::parameter);
}

Value Net::dropout_seed() {
  if (!seed_) seed_ = b.input("seed", {DType::i64, {}});
  return seed_;
}

Model Net::finish(Value result, Value loss) && {
  b.set_category(copies_, Category::parameter);
  b.output(loss ? loss : result);
  return {std::move(b).finish(), result, loss, std::move(inits_), std::move(state_inits_), options_};
}

Value linear(Net& net, std::string_view name, Value x, Dim out, const LinearOptions& options) {
  const Scope scope(net.b, name);
  const int64_t in = net.b.shape(x).back().constant();
  const Value weight = net.parameter("weight", {out, in}, options.init.value_or(fan_in(in)));
  if (!options.bias) return program::linear(net.b, x, weight);
  const Value bias = net.parameter("bias", {out}, options.init ? constant(0) : fan_in(in));
  return program::linear(net.b, x, weight, bias);
}

Value conv2d(Net& net, std::string_view name, Value x, int64_t out, int64_t kernel, const ConvOptions& options) {
  const Scope scope(net.b, name);
  const int64_t in = net.b.shape(x)[1].constant() / options.groups;
  const Init init = fan_in(in * kernel * kernel);
  const Value weight = net.parameter("weight", {out, in, kernel, kernel}, init);
  const Value bias = options.bias ? net.parameter("bias", {out}, init) : Value{};
  return program::conv(net.b, x, weight, bias,
                       {.stride = {options.stride}, .padding = {options.padding}, .groups = options.groups});
}

Value up_conv2d(Net& net, std::string_view name, Value x, int64_t out) {
  const Scope scope(net.b, name);
  const Init init = fan_in(out * 2 * 2);  // PyTorch counts the second dimension of the weight as inputs here, too
  const Value weight = net.parameter("weight", {net.b.shape(x)[1], out, 2, 2}, init);
  return program::conv_transpose(net.b, x, weight, net.parameter("bias", {out}, init), {.stride = {2}});
}

Value batch_norm(Net& net, std::string_view name, Value x) {
  const Scope scope(net.b, name);
  const Dims channels = {net.b.shape(x)[1]};
  const Value weight = net.wide_parameter("weight", channels, constant(1));
  const Value bias = net.wide_parameter("bias", channels, constant(0));
  const Value mean = net.wide_state("running_mean", channels, constant(0));
  const Value variance = net.wide_state("running_var", channels, constant(1));
  if (!net.training()) return program::batch_norm_inference(net.b, x, weight, bias, mean, variance);
  return program::batch_norm(net.b, x, weight, bias, program::RunningStatistics{mean, variance});
}

Value layer_norm(Net& net, std::string_view name, Value x, double eps) {
  const Scope scope(net.b, name);
  const Dims width = {net.b.shape(x).back()};
  const Value weight = net.wide_parameter("weight", width, constant(1));
  const Value bias = net.wide_parameter("bias", width, constant(0));
  return program::layer_norm(net.b, x, weight, bias, {.eps = eps});
}

Value rms_norm(Net& net, std::string_view name, Value x, double eps) {
  const Scope scope(net.b, name);
  return program::rms_norm(net.b, x, net.wide_parameter("weight", {net.b.shape(x).back()}, constant(1)), {.eps = eps});
}

Value group_norm(Net& net, std::string_view name, Value x, int64_t groups, double eps) {
  const Scope scope(net.b, name);
  const Dims channels = {net.b.shape(x)[1]};
  const Value weight = net.wide_parameter("weight", channels, constant(1));
  return program::group_norm(net.b, x, groups, weight, net.wide_parameter("bias", channels, constant(0)), eps);
}

Value embedding_table(Net& net, std::string_view name, int64_t rows, int64_t width, const Init& init) {
  const Scope scope(net.b, name);
  return net.parameter("weight", {rows, width}, init);
}

Value embedding(Net& net, std::string_view name, Value indices, int64_t rows, int64_t width, const Init& init) {
  return program::embedding(net.b, embedding_table(net, name, rows, width, init), indices);
}

Value multi_head_attention(Net& net, std::string_view name, Value x, const Heads& heads) {
  const Scope scope(net.b, name);
  const int64_t width = net.b.shape(x).back().constant();
  const Init xavier = uniform(std::sqrt(6.0 / static_cast<double>(width + 3 * width)));
  const Value weight = net.parameter("in_proj_weight", {3 * width, width}, xavier);
  const Value qkv = program::linear(net.b, x, weight, net.parameter("in_proj_bias", {3 * width}, constant(0)));
  const std::vector<Value> parts = split(net, qkv, -1, 3);
  const Value mixed = attention(net, parts[0], parts[1], parts[2], heads);
  return linear(net, "out_proj", mixed, width, {.init = fan_in(width)});
}

Model classify(Net&& net, Value logits, int axis) {
  if (!net.training()) return std::move(net).finish(logits);
  const Dims shape = net.b.shape(logits);
  Dims lines;
  for (int i = 0; i < shape.rank(); ++i) {
    if (i != (axis + shape.rank()) % shape.rank()) lines.push_back(shape[i]);
  }
  const Value target = net.indices("target", lines);
  const Value loss = program::cross_entropy(net.b, logits, target, {.axis = axis});
  return std::move(net).finish(logits, loss);
}

Model regress(Net&& net, Value result) {
  if (!net.training()) return std::move(net).finish(result);
  const Value loss = program::mse_loss(net.b, result, net.input("target", net.b.shape(result)));
  return std::move(net).finish(result, loss);
}

int64_t parameter_count(const Model& model) {
  int64_t count = 0;
  for (const Value value : model.program.parameters) count += model.program[value].type.spec().shape.elements();
  return count;
}

}  // namespace plimsoll::models
