// Losses that graphs have of their own.
#include <algorithm>

#include "plimsoll/models/onnx/node.h"
#include "plimsoll/program/ops/constant.h"
#include "plimsoll/program/ops/elementwise_binary.h"
#include "plimsoll/program/ops/elementwise_unary.h"
#include "plimsoll/program/ops/index.h"
#include "plimsoll/program/ops/loss.h"
#include "plimsoll/program/ops/reduce.h"
#include "plimsoll/program/ops/shape.h"
#include "plimsoll/program/ops/softmax.h"

namespace plimsoll::models::onnx_import {
namespace {

namespace p = program;

// Of logarithms of probabilities, the classes in dimension 1.
Value negative_log_likelihood(NodeCall& call, Value logs) {
  Builder& b = call.b;
  const Dims shape = b.shape(logs);
  const DType dtype = b.type(logs).dtype;
  Value target = call.value(1);
  const Dims lines = b.shape(target);
  Value weight;
  if (call.attribute("ignore_index") != nullptr) {
    const Value ignored = call.scalar(static_cast<double>(call.integer("ignore_index", 0)), DType::i64);
    const Value counts = p::ne(b, target, ignored);
    target = p::where(b, counts, target, call.scalar(0, DType::i64));
    weight = p::cast(b, counts, dtype);
  }
  if (call.has(2)) {
    const Value of_class = p::gather(b, call.value(2), target, 0);
    weight = weight ? p::mul(b, weight, of_class) : of_class;
  }
  Dims index_shape;
  for (int i = 0; i < shape.rank(); ++i) index_shape.push_back(i == 1 ? Dim(1) : shape[i]);
  const Value picked = p::gather_elements(b, logs, p::reshape(b, target, index_shape), 1);
  Value loss = p::neg(b, p::reshape(b, picked, lines));
  if (weight) loss = p::mul(b, loss, weight);
  const std::string how = call.text("reduction", "mean");
  if (how == "none") return loss;
  if (how == "sum") return p::sum(b, loss);
  return weight ? p::div(b, p::sum(b, loss), p::sum(b, weight)) : p::mean(b, loss);
}

void import_nll_loss(NodeCall& call) { call.set_same(negative_log_likelihood(call, call.value(0))); }

p::Reduction reduction_of(const NodeCall& call) {
  const std::string how = call.text("reduction", "mean");
  if (how == "none") return p::Reduction::none;
  return how == "sum" ? p::Reduction::sum : p::Reduction::mean;
}

bool is_output(const NodeCall& call) {
  const auto& outputs = call.in.file().proto.graph().output();
  return std::any_of(outputs.begin(), outputs.end(),
                     [&](const ValueInfoProto& one) { return one.name() == call.node.output(0); });
}

// As one op, which is f32 also of logits in lower precision.
void import_plain_cross_entropy(NodeCall& call) {
  const Value loss = p::cross_entropy(
      call.b, call.value(0), call.value(1),
      {.axis = 1, .ignored_index = call.integer("ignore_index", -100), .reduction = reduction_of(call)});
  call.set_same(is_output(call) ? loss : call.as(loss, call.in.net.dtype()));
}

void import_cross_entropy(NodeCall& call) {
  if (!call.has(2) && !call.wants(1)) return import_plain_cross_entropy(call);
  const Value logs = p::log_softmax(call.b, call.value(0), 1);
  call.set_same(negative_log_likelihood(call, logs));
  call.set(1, logs, call.element_type(0));
}

constexpr RuleEntry kLossRules[] = {
    {"NegativeLogLikelihoodLoss", import_nll_loss},
    {"SoftmaxCrossEntropyLoss", import_cross_entropy},
};

}  // namespace

RuleFamily loss_rules() { return {"", kLossRules}; }

}  // namespace plimsoll::models::onnx_import
