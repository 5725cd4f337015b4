// Products of matrices.
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
