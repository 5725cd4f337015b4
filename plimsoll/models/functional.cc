#include "plimsoll/models/nn.h"
#include "plimsoll/program/ops/attention.h"
#include "plimsoll/program/ops/dropout.h"
#include "plimsoll/program/ops/elementwise_binary.h"
#include "plimsoll/program/ops/elementwise_unary.h"
#include "plimsoll/program/ops/matmul.h"
#include "plimsoll/program/ops/pool.h"
#include "plimsoll/program/ops/reduce.h"
#include "plimsoll/program/ops/resize.h"
#include "plimsoll/program/ops/shape.h"
#include "plimsoll/program/ops/slice.h"
#include "plimsoll/program/ops/softmax.h"

namespace plimsoll::models {
namespace {

// [batch, sequence, width] to [batch, heads, sequence, width / heads]: views.
Value by_head(Net& net, Value x, int64_t heads) {
  const Dims shape = net.b.shape(x);
  const Value apart = reshape(net, x, {shape[0], shape[1], heads, shape[2].constant() / heads});
  return transpose(net, apart, {0, 2, 1, 3});
}

}  // namespace

Value relu(Net& net, Value x) { return program::relu(net.b, x); }
Value leaky_relu(Net& net, Value x, double slope) { return program::leaky_relu(net.b, x, slope); }
Value gelu(Net& net, Value x) { return program::gelu(net.b, x); }
Value gelu_tanh(Net& net, Value x) { return program::gelu_tanh(net.b, x); }
Value silu(Net& net, Value x) { return program::silu(net.b, x); }
Value sigmoid(Net& net, Value x) { return program::sigmoid(net.b, x); }
Value tanh(Net& net, Value x) { return program::tanh(net.b, x); }
Value softmax(Net& net, Value x, int axis) { return program::softmax(net.b, x, axis); }

Value dropout(Net& net, Value x, double rate) {
  return net.training() && rate > 0 ? program::dropout(net.b, x, net.dropout_seed(), {.rate = rate}) : x;
}

Value add(Net& net, Value x, Value z) { return program::add(net.b, x, z); }
Value sub(Net& net, Value x, Value z) { return program::sub(net.b, x, z); }
Value mul(Net& net, Value x, Value z) { return program::mul(net.b, x, z); }
Value div(Net& net, Value x, Value z) { return program::div(net.b, x, z); }

Value affine(Net& net, Value x, double scale, double shift) {
  return program::affine(net.b, x, {.scale = scale, .shift = shift});
}

Value matmul(Net& net, Value a, Value z) { return program::matmul(net.b, a, z); }

Value attention(Net& net, Value q, Value k, Value v, const Heads& heads) {
  const Dims shape = net.b.shape(q);
  const Value mixed = program::attention(net.b, by_head(net, q, heads.count), by_head(net, k, heads.count),
                                         by_head(net, v, heads.count), {.causal = heads.causal});
  return reshape(net, transpose(net, mixed, {0, 2, 1, 3}), shape);
}

Value mean(Net& net, Value x, const Dims& axes, bool keepdims) {
  return program::mean(net.b, x, {.axes = axes, .keepdims = keepdims});
}

Value max_pool(Net& net, Value x, int64_t kernel, int64_t stride, int64_t padding) {
  return program::max_pool(net.b, x, {.kernel = {kernel}, .stride = {stride}, .padding = {padding}});
}

Value avg_pool(Net& net, Value x, int64_t kernel, int64_t stride, int64_t padding) {
  return program::avg_pool(net.b, x, {.kernel = {kernel}, .stride = {stride}, .padding = {padding}});
}

Value global_avg_pool(Net& net, Value x) { return program::flatten(net.b, program::global_avg_pool(net.b, x)); }

Value upsample(Net& net, Value x, double scale) { return program::resize(net.b, x, {.scale = scale}); }

Value flatten(Net& net, Value x, int axis) { return program::flatten(net.b, x, axis); }
Value reshape(Net& net, Value x, const Dims& shape) { return program::reshape(net.b, x, shape); }
Value transpose(Net& net, Value x, const Dims& axes) { return program::transpose(net.b, x, axes); }

Value slice(Net& net, Value x, int axis, Dim start, Dim end) {
  return program::slice(net.b, x, {.axis = axis, .start = start, .end = end});
}

std::vector<Value> split(Net& net, Value x, int axis, int parts) { return program::split(net.b, x, axis, parts); }

Value concat(Net& net, const std::vector<Value>& xs, int axis) { return program::concat(net.b, xs, axis); }

}  // namespace plimsoll::models
