#include "plimsoll/program/ops/constant.h"

#include "plimsoll/program/shape_rules.h"

namespace plimsoll::program {
namespace {

std::vector<Type> infer_fill(const OpCall& call) { return {{dtype_attribute(call), call.dims("shape")}}; }

}  // namespace

Value fill(Builder& b, double value, const Type& type) {
  return b.emit("fill", {}, {{"value", value}, {"shape", type.shape}, {"dtype", type.dtype}});
}

void register_constant(OpTable& table) {
  table.add({.name = "fill",
             .inputs = {},
             .attributes = {{"value", AttributeKind::real, {}},
                            {"shape", AttributeKind::dims, {}},
                            {"dtype", AttributeKind::word, Attribute(DType::f32)}},
             .infer = infer_fill,
             .flops = no_flops});
}

}  // namespace plimsoll::program
