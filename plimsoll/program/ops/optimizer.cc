#include "plimsoll/program/ops/optimizer.h"

namespace plimsoll::program {
namespace {

std::vector<Type> infer_sgd(const Call& call) {
  call.require_floating(0);
  call.require_same(0, 1);
  call.require_floating(2);
  call.require_rank(2, 0);
  return {call.input(0)};
}

}  // namespace

Value sgd(Builder& b, Value w, Value dw, Value rate) { return b.emit("sgd", {w, dw, rate}); }

void register_optimizer(OpTable& table) {
  table.add({.name = "sgd",
             .inputs = {"w", "dw", "rate"},
             .infer = infer_sgd,
             .overwrites = {{.output = 0, .input = 0}},
             .flops = [](const Call& call) { return Dim(2) * call.shape(0).elements(); }});
}

}  // namespace plimsoll::program
