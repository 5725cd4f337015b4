#include "plimsoll/program/ops/constant.h"

namespace plimsoll::program {
namespace {

std::vector<Type> infer_fill(const Call& call) {
  const auto dtype = try_parse_dtype(call.word("dtype"));
  call.require(dtype.has_value(), "the attribute dtype must name a dtype");
  return {{*dtype, call.dims("shape")}};
}

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
             .flops = [](const Call&) { return Dim(0); }});
}

}  // namespace plimsoll::program
