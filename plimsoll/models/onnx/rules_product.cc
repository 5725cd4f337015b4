// Products of matrices.
#include <algorithm>
#include <utility>

#include "plimsoll/models/onnx/products.h"
#include "plimsoll/program/ops/elementwise_binary.h"
#include "plimsoll/program/ops/elementwise_unary.h"
#include "plimsoll/program/ops/linear.h"
#include "plimsoll/program/ops/matmul.h"
#include "plimsoll/program/ops/shape.h"

namespace plimsoll::models::onnx_import {

namespace p = program;

Value product(NodeCall& call, Value x, Value z) {
  Builder& b = call.b;
  Dims xs = b.shape(x);
  Dims zs = b.shape(z);
  if (xs.rank() == 0 || zs.rank() == 0) call.reject("products of single numbers");
  if (zs.rank() == 2 && xs.rank() >= 2) {
    if (const Value rows = call.in.untransposed(z)) return p::linear(b, x, rows);
    if (xs.rank() > 2) {  // one product instead of many
      Dim lines = 1;
      Dims out;
      for (int i = 0; i + 1 < xs.rank(); ++i) {
        lines = lines * xs[i];
        out.push_back(xs[i]);
      }
      out.push_back(zs[1]);
      return p::reshape(b, p::matmul(b, p::reshape(b, x, {lines, xs.back()}), z), out);
    }
  }
  if (xs.rank() > 1 && zs.rank() > 1) return p::matmul(b, x, z);
  const bool row = xs.rank() == 1;
  const bool column = zs.rank() == 1;
  if (row) x = p::reshape(b, x, {1, xs[0]});
  if (column) z = p::reshape(b, z, {zs[0], 1});
  const Value y = p::matmul(b, x, z);
  const Dims ys = b.shape(y);
  Dims out;
  for (int i = 0; i < ys.rank(); ++i) {
    const bool drops = (row && i == ys.rank() - 2) || (column && i == ys.rank() - 1);
    if (!drops) out.push_back(ys[i]);
  }
  return p::reshape(b, y, out);
}

namespace {

// The one that is not there is a nullptr. Values are mostly read soon after they are made.
const p::Op* maker(const p::Program& program, Value value) {
  const auto found = std::find_if(program.ops.rbegin(), program.ops.rend(), [&](const p::Op& op) {
    return std::find(op.outputs.begin(), op.outputs.end(), value) != op.outputs.end();
  });
  return found == program.ops.rend() ? nullptr : &*found;
}

// The product of two matrices that this is a view of, with the same columns; nothing: it is none.
Value product_of_matrices(const Builder& b, Value value) {
  const p::Op* reshape = maker(b.program(), value);
  if (reshape == nullptr || reshape->def->name != "reshape") return {};
  const Value flat = reshape->inputs[0];
  const p::Op* product = maker(b.program(), flat);
  const bool is_product = product != nullptr && product->def->name == "matmul" && b.shape(flat).rank() == 2;
  return is_product && b.shape(flat).back() == b.shape(value).back() ? flat : Value{};
}

}  // namespace

Value sum_of(NodeCall& call, Value x, Value z) {
  Builder& b = call.b;
  for (const auto& [wide, bias] : {std::pair(x, z), std::pair(z, x)}) {
    const Dims shape = b.shape(wide);
    if (shape.rank() <= 2 || b.shape(bias) != Dims{shape.back()}) continue;
    if (const Value flat = product_of_matrices(b, wide)) return p::reshape(b, p::add(b, flat, bias), shape);
  }
  return p::add(b, x, z);
}

namespace {

void import_matmul(NodeCall& call) { call.set_same(product(call, call.value(0), call.value(1))); }

void import_gemm(NodeCall& call) { call.set_same(gemm(call)); }

void import_einsum(NodeCall& call) {
  if (call.inputs() == 0) call.reject("there must be an operand");
  std::vector<Value> operands;
  for (int i = 0; i < call.inputs(); ++i) operands.push_back(call.value(i));
  call.set_same(einsum(call, call.text("equation", ""), operands));
}

constexpr RuleEntry kProductRules[] = {
    {"MatMul", import_matmul},
    {"Gemm", import_gemm},
    {"Einsum", import_einsum},
};

}  // namespace

Value gemm(NodeCall& call) {
  Builder& b = call.b;
  const double alpha = call.real("alpha", 1);
  const double beta = call.real("beta", 1);
  const bool turn_a = call.flag("transA");
  const bool turn_b = call.flag("transB");
  const Value x = call.value(0);
  const Value w = call.value(1);
  const bool is_linear = turn_b && !turn_a && alpha == 1;
  if (is_linear && call.has(2) && beta == 1 && call.rank(2) == 1 && call.shape(2)[0] == call.shape(1)[0]) {
    return p::linear(b, x, w, call.value(2));
  }
  Value y = is_linear ? p::linear(b, x, w) : p::matmul(b, x, w, {.transpose_a = turn_a, .transpose_b = turn_b});
  if (alpha != 1) y = p::affine(b, y, {.scale = alpha});
  if (call.has(2) && beta != 0) {
    Value c = call.compact(2);
    if (beta != 1) c = p::affine(b, c, {.scale = beta});
    y = p::add(b, y, c);
  }
  return y;
}

RuleFamily product_rules() { return {"", kProductRules}; }

}  // namespace plimsoll::models::onnx_import
