#include "plimsoll/program/ops/matmul.h"

#include <fmt/format.h>

#include <algorithm>

#include "plimsoll/program/autodiff.h"

namespace plimsoll::program {
namespace {

struct Sides {
  Dim rows;
  Dim columns;
};

Sides sides(const Dims& shape, bool transposed) {
  return transposed ? Sides{shape.back(1), shape.back(2)} : Sides{shape.back(2), shape.back(1)};
}

void require_product(const Call& call, const Sides& a, const Sides& b) {
  if (a.columns == b.rows) return;
  call.reject(fmt::format("the columns of a{} ({}) must be as many as the rows of b{} ({})",
                          call.flag("transpose_a") ? " transposed" : "", a.columns.text(),
                          call.flag("transpose_b") ? " transposed" : "", b.rows.text()));
}

std::vector<Type> infer_matmul(const Call& call) {
  call.require_floating(0);
  call.require_same_dtype(0, 1);
  const Dims& a = call.shape(0);
  const Dims& b = call.shape(1);
  call.require(a.rank() >= 2 && a.rank() == b.rank(), "a and b must have the same rank, 2 or more");
  call.require(std::equal(a.begin(), a.end() - 2, b.begin()), "the batch dimensions, before the last two, must agree");
  const Sides left = sides(a, call.flag("transpose_a"));
  const Sides right = sides(b, call.flag("transpose_b"));
  require_product(call, left, right);
  Type y = call.input(0);
  y.shape[a.rank() - 2] = left.rows;
  y.shape[a.rank() - 1] = right.columns;
  return {y};
}

// With A and B the operands as multiplied, dA = dY B' and dB = A' dY; a transposed operand takes the transpose of that.
void differentiate_matmul(Gradient& g) {
  const bool ta = g.attribute("transpose_a").flag();
  const bool tb = g.attribute("transpose_b").flag();
  const Value a = g.input(0);
  const Value b = g.input(1);
  const Value dy = g.of_output();
  if (g.wants(0)) g.set(0, ta ? matmul(g.b, b, dy, {tb, true}) : matmul(g.b, dy, b, {false, !tb}));
  if (g.wants(1)) g.set(1, tb ? matmul(g.b, dy, a, {true, ta}) : matmul(g.b, a, dy, {!ta, false}));
}

Dim matmul_flops(const Call& call) {
  return Dim(2) * call.output(0).shape.elements() * sides(call.shape(0), call.flag("transpose_a")).columns;
}

}  // namespace

Value matmul(Builder& b, Value a, Value z, MatmulOptions options) {
  return b.emit("matmul", {a, z}, {{"transpose_a", options.transpose_a}, {"transpose_b", options.transpose_b}});
}

void register_matmul(OpTable& table) {
  table.add({.name = "matmul",
             .inputs = {"a", "b"},
             .attributes = {{"transpose_a", AttributeKind::flag, Attribute(false)},
                            {"transpose_b", AttributeKind::flag, Attribute(false)}},
             .infer = infer_matmul,
             .gradient = differentiate_matmul,
             .flops = matmul_flops});
}

}  // namespace plimsoll::program
