#include "plimsoll/program/ops/softmax.h"

#include "plimsoll/program/autodiff.h"

namespace plimsoll::program {
namespace {

std::vector<Type> infer_softmax(const OpCall& call) {
  call.require_floating(0);
  call.axis("axis");
  return {call.input(0)};
}

std::vector<Type> infer_backward(const OpCall& call) {
  call.require_same(0, 1);
  return infer_softmax(call);
}

// Each is computed by lines: what is needed of a whole line is read before its first element is written.
void add_pair(OpTable& table, const std::string& name, Sign sign) {
  const std::string backward = name + "_backward";
  const AttributeSpec axis = {"axis", AttributeKind::integer, Attribute(-1)};
  table.add({.name = name,
             .inputs = {"x"},
             .attributes = {axis},
             .infer = infer_softmax,
             .gradient =
                 [backward](Gradient& g) {
                   g.set(0, g.b.emit(backward, std::vector{g.of_output(), g.output()}, g.attributes()));
                 },
             .in_place = {0},
             .flops = [](const OpCall& call) { return Dim(5) * call.shape(0).elements(); },
             .traits = {.sign = sign}});
  table.add({.name = backward,
             .inputs = {"dy", "y"},
             .attributes = {axis},
             .infer = infer_backward,
             .in_place = {0, 1},
             .flops = [](const OpCall& call) { return Dim(4) * call.shape(0).elements(); }});
}

}  // namespace

Value softmax(Builder& b, Value x, int axis) { return b.emit("softmax", {x}, {{"axis", axis}}); }
Value log_softmax(Builder& b, Value x, int axis) { return b.emit("log_softmax", {x}, {{"axis", axis}}); }

void register_softmax(OpTable& table) {
  add_pair(table, "softmax", Sign::non_negative);
  add_pair(table, "log_softmax", Sign::any);
}

}  // namespace plimsoll::program
