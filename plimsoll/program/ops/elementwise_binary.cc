#include "plimsoll/program/ops/elementwise_binary.h"

#include "plimsoll/program/autodiff.h"

namespace plimsoll::program {
namespace {

std::vector<Type> infer_same(const Call& call) {
  call.require_same(0, 1);
  return {call.input(0)};
}

}  // namespace

Value add(Builder& b, Value x, Value z) { return b.emit("add", {x, z}); }

void register_elementwise_binary(OpTable& table) {
  table.add({.name = "add",
             .inputs = {"x", "z"},
             .infer = infer_same,
             .gradient =
                 [](Gradient& g) {
                   g.set(0, g.of_output());
                   g.set(1, g.of_output());
                 },
             .in_place = {0, 1}});
}

}  // namespace plimsoll::program
