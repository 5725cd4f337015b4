#include "plimsoll/program/ops/epilogue.h"

#include <fmt/format.h>

#include "plimsoll/program/ops/conv.h"
#include "plimsoll/program/shape_rules.h"

namespace plimsoll::program {
namespace {

constexpr std::string_view kSuffix = "_epilogue";

const OpDef& product_of(const OpDef& def) {
  return op_table().get(std::string_view(def.name).substr(0, def.name.size() - kSuffix.size()));
}

void require_residual(const OpCall& call, const Type& y) {
  const Type& residual = call.inputs.back();
  if (residual.dtype == y.dtype && broadcasts_to(residual.shape, y.shape)) return;
  call.reject(fmt::format("the residual, the last operand, must broadcast to the result, {}", y.text()));
}

std::vector<Type> infer_epilogue(const OpCall& call) {
  const bool residual = call.flag("residual");
  call.require(!residual || call.arity() > call.def.least_inputs, "with residual=true the last operand is added");
  const OpCall product = product_call(call);
  call.require(product.arity() <= product.def.most_inputs, "the last operand needs residual=true");
  const Type y = product.def.infer(product)[0];
  if (residual) require_residual(call, y);
  return {y, bit_mask(y.shape)};
}

Dim epilogue_flops(const OpCall& call) {
  const OpCall product = product_call(call);
  const int64_t after = (call.flag("residual") ? 1 : 0) + (call.flag("relu") ? 1 : 0);
  return product.def.flops(product) + Dim(after) * call.output(0).shape.elements();
}

void add_epilogue(OpTable& table, const std::string& product, std::vector<std::string> inputs,
                  std::vector<AttributeSpec> attributes) {
  attributes.push_back({"residual", AttributeKind::flag, Attribute(false)});
  attributes.push_back({"relu", AttributeKind::flag, Attribute(false)});
  inputs.push_back("residual?");
  std::vector<int> in_place;
  for (int i = 2; i < static_cast<int>(inputs.size()); ++i) in_place.push_back(i);
  table.add({.name = product + std::string(kSuffix),
             .inputs = std::move(inputs),
             .outputs = {"y", "mask?"},
             .attributes = std::move(attributes),
             .infer = infer_epilogue,
             .in_place = std::move(in_place),
             .flops = epilogue_flops});
}

}  // namespace

const OpDef* epilogue_form(const OpDef& product) {
  return product.name.ends_with(kSuffix) ? &product : op_table().find(product.name + std::string(kSuffix));
}

OpCall product_call(const OpCall& call) {
  const OpDef& product = product_of(call.def);
  const size_t operands = call.inputs.size() - (call.flag("residual") ? 1 : 0);
  return {product, call.inputs.first(operands), call.attributes.first(product.attributes.size()), call.outputs,
          call.label};
}

void register_epilogue(OpTable& table) {
  add_epilogue(table, "conv", {"x", "w", "bias?"}, conv_attributes());
  add_epilogue(table, "linear", {"x", "w", "bias?"}, {});
  add_epilogue(
      table, "matmul", {"a", "b"},
      {{"transpose_a", AttributeKind::flag, Attribute(false)}, {"transpose_b", AttributeKind::flag, Attribute(false)}});
}

}  // namespace plimsoll::program
