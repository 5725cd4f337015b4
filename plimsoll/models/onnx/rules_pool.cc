// Pools.
#include <fmt/format.h>

#include <cmath>

#include "plimsoll/models/onnx/node.h"
#include "plimsoll/models/onnx/windows.h"
#include "plimsoll/program/ops/elementwise_unary.h"
#include "plimsoll/program/ops/pool.h"
#include "plimsoll/program/ops/reduce.h"

namespace plimsoll::models::onnx_import {
namespace {

namespace p = program;

p::PoolOptions pool_options(NodeCall& call) {
  if (call.attribute("kernel_shape") == nullptr) call.reject("a pool without kernel_shape");
  const Windows w = windows_of(call, {});
  return {.kernel = w.kernel,
          .stride = w.stride,
          .padding = w.padding,
          .dilation = w.dilation,
          .ceil_mode = call.flag("ceil_mode"),
          .count_include_pad = call.flag("count_include_pad")};
}

void import_max_pool(NodeCall& call) {
  call.require(!call.wants(1), "the places of the maxima");
  const Value x = call.as(call.value(0), call.in.net.dtype());
  call.set_same(call.as(p::max_pool(call.b, x, pool_options(call)), call.dtype(0)));
}

void import_average_pool(NodeCall& call) { call.set_same(p::avg_pool(call.b, call.value(0), pool_options(call))); }

void import_lp_pool(NodeCall& call) {
  Builder& b = call.b;
  const auto power = static_cast<double>(call.integer("p", 2));
  p::PoolOptions options = pool_options(call);
  options.count_include_pad = true;
  double count = 1;
  for (const Dim dim : options.kernel) count *= static_cast<double>(dim.constant());
  const Value raised = p::pow(b, p::abs(b, call.value(0)), power);
  const Value sum = p::affine(b, p::avg_pool(b, raised, options), {.scale = count});
  call.set_same(p::pow(b, sum, 1 / power));
}

void import_global_average(NodeCall& call) { call.set_same(p::global_avg_pool(call.b, call.value(0))); }
void import_global_max(NodeCall& call) { call.set_same(p::global_max_pool(call.b, call.value(0))); }

void import_global_lp(NodeCall& call) {
  Builder& b = call.b;
  const auto power = static_cast<double>(call.integer("p", 2));
  Dims axes;
  for (int i = 2; i < call.rank(0); ++i) axes.push_back(i);
  const Value raised = p::pow(b, p::abs(b, call.value(0)), power);
  call.set_same(p::pow(b, p::sum(b, raised, {.axes = axes, .keepdims = true}), 1 / power));
}

constexpr RuleEntry kPoolRules[] = {
    {"MaxPool", import_max_pool},         {"AveragePool", import_average_pool},
    {"LpPool", import_lp_pool},           {"GlobalAveragePool", import_global_average},
    {"GlobalMaxPool", import_global_max}, {"GlobalLpPool", import_global_lp},
};

}  // namespace

RuleFamily pool_rules() { return {"", kPoolRules}; }

}  // namespace plimsoll::models::onnx_import
