#include "plimsoll/program/ops/accumulate.h"

namespace plimsoll::program {
namespace {

std::vector<Type> infer_accumulate(const OpCall& call) {
  call.require_floating(0);
  call.require_same(0, 1);
  return {call.input(0)};
}

// As linear_backward_weights, whose results are added to the sums.
std::vector<Type> infer_linear_accumulate(const OpCall& call) {
  for (int i = 0; i < 3; ++i) {
    call.require_floating(i);
    call.require_same_dtype(0, i);
  }
  call.require_rank(0, 2);
  call.require(!call.shape(1).empty() && !call.shape(2).empty(), "dy and x must have at least one dimension");
  call.require(call.shape(0) == Dims{call.shape(1).back(), call.shape(2).back()},
               "sum must have as many rows as dy has columns, and as many columns as x");
  return {call.input(0)};
}

}  // namespace

Value accumulate(Builder& b, Value sum, Value x) { return b.emit("accumulate", {sum, x}); }
Value clear(Builder& b, Value x) { return b.emit("clear", {x}); }

void register_accumulate(OpTable& table) {
  table.add({.name = "accumulate",
             .inputs = {"sum", "x"},
             .outputs = {"sum_new"},
             .infer = infer_accumulate,
             .overwrites = {{.output = 0, .input = 0}}});
  table.add({.name = "linear_accumulate",
             .inputs = {"sum", "dy", "x"},
             .outputs = {"sum_new"},
             .infer = infer_linear_accumulate,
             .overwrites = {{.output = 0, .input = 0}},
             .flops = [](const OpCall& call) { return Dim(2) * call.shape(1).elements() * call.shape(2).back(); }});
  table.add({.name = "clear",
             .inputs = {"x"},
             .outputs = {"zeros"},
             .infer = [](const OpCall& call) { return std::vector<Type>{call.input(0)}; },
             .overwrites = {{.output = 0, .input = 0}}});
}

}  // namespace plimsoll::program
