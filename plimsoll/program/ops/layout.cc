#include "plimsoll/program/ops/layout.h"

#include "plimsoll/program/autodiff.h"

namespace plimsoll::program {

Value reorder(Builder& b, Value x) { return b.emit("reorder", {x}); }

void register_layout(OpTable& table) {
  table.add({.name = "reorder",
             .inputs = {"x"},
             .infer = [](const OpCall& call) { return std::vector{call.input(0)}; },
             .gradient = [](Gradient& g) { g.set(0, g.of_output()); },
             .flops = [](const OpCall&) { return Dim(0); }});
}

}  // namespace plimsoll::program
