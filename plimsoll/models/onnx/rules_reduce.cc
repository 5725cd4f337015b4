// Reductions.
#include "plimsoll/models/onnx/node.h"
#include "plimsoll/models/onnx/windows.h"
#include "plimsoll/program/ops/elementwise_binary.h"
#include "plimsoll/program/ops/elementwise_unary.h"
#include "plimsoll/program/ops/reduce.h"
#include "plimsoll/program/ops/shape.h"

namespace plimsoll::models::onnx_import {
namespace {

namespace p = program;

// What stands before and after the sum.
using Step = Value (*)(Builder&, Value);
using Over = Value (*)(Builder&, Value, const p::ReduceOptions&);

Value as_it_is(Builder&, Value x) { return x; }
Value log_sum_exp(Builder& b, Value x, const p::ReduceOptions& over) {
  p::ReduceOptions kept = over;
  kept.keepdims = true;
  const Value most = p::max(b, x, kept);
  const Value sum = p::log(b, p::sum(b, p::exp(b, p::sub(b, x, most)), kept));
  const Value y = p::add(b, sum, most);
  if (over.keepdims) return y;
  return p::sum(b, y, over);  // dimensions of 1
}

template <Step Before, Over F, Step After>
void reduce(NodeCall& call) {
  Builder& b = call.b;
  const std::vector<int64_t> axes = call.axes("axes", 1, call.rank(0));
  const bool is_real = call.is_real(0);
  Value x = call.as(call.value(0), call.in.net.dtype());
  const bool none = axes.empty() && (call.flag("noop_with_empty_axes") || call.rank(0) == 0);
  if (none) {
    x = After(b, Before(b, x));
  } else {
    Dims over = dims_from(axes);
    if (over.empty()) {
      for (int i = 0; i < call.rank(0); ++i) over.push_back(i);
    }
    x = After(b, F(b, Before(b, x), {.axes = over, .keepdims = call.flag("keepdims", true)}));
  }
  if (!is_real && call.kind(0) == ElementKind::integer) x = p::round(b, x);
  call.set_same(call.as(x, call.dtype(0)));
}

Value over_sum(Builder& b, Value x, const p::ReduceOptions& o) { return p::sum(b, x, o); }
Value over_mean(Builder& b, Value x, const p::ReduceOptions& o) { return p::mean(b, x, o); }
Value over_max(Builder& b, Value x, const p::ReduceOptions& o) { return p::max(b, x, o); }
Value over_min(Builder& b, Value x, const p::ReduceOptions& o) { return p::min(b, x, o); }
Value over_prod(Builder& b, Value x, const p::ReduceOptions& o) { return p::prod(b, x, o); }
Value over_norm2(Builder& b, Value x, const p::ReduceOptions& o) { return p::norm2(b, x, o); }

constexpr RuleEntry kReduceRules[] = {
    {"ReduceSum", reduce<as_it_is, over_sum, as_it_is>},   {"ReduceMean", reduce<as_it_is, over_mean, as_it_is>},
    {"ReduceMax", reduce<as_it_is, over_max, as_it_is>},   {"ReduceMin", reduce<as_it_is, over_min, as_it_is>},
    {"ReduceProd", reduce<as_it_is, over_prod, as_it_is>}, {"ReduceL1", reduce<p::abs, over_sum, as_it_is>},
    {"ReduceL2", reduce<as_it_is, over_norm2, as_it_is>},  {"ReduceSumSquare", reduce<p::square, over_sum, as_it_is>},
    {"ReduceLogSum", reduce<as_it_is, over_sum, p::log>},  {"ReduceLogSumExp", reduce<as_it_is, log_sum_exp, as_it_is>},
};

}  // namespace

RuleFamily reduce_rules() { return {"", kReduceRules}; }

}  // namespace plimsoll::models::onnx_import
