#include "plimsoll/program/ops/matmul.h"

#include <fmt/format.h>

#include "plimsoll/program/autodiff.h"
#include "plimsoll/program/shape_rules.h"

namespace plimsoll::program {
namespace {

struct Sides {
  Dim rows;
  Dim columns;
};

Sides sides(const Dims& shape, bool transposed) {
  return transposed ? Sides{shape.back(1), shape.back(2)} : Sides{shape.back(2), shape.back(1)};
}

// The dimensions before the last two.
Dims batch_of(const Dims& shape) { return Dims(std::span(shape.begin(), shape.end() - 2)); }

Dims matrices(Dims batch, Dim rows, Dim columns) {
  batch.push_back(rows);
  batch.push_back(columns);
  return batch;
}

void require_product(const OpCall& call, const Sides& a, const Sides& b) {
  if (a.columns == b.rows) return;
  call.reject(fmt::format("the columns of a{} ({}) must be as many as the rows of b{} ({})",
                          call.flag("transpose_a") ? " transposed" : "", a.columns.text(),
                          call.flag("transpose_b") ? " transposed" : "", b.rows.text()));
}

std::vector<Type> infer_matmul(const OpCall& call) {
  call.require_floating(0);
  call.require_same_dtype(0, 1);
  call.require(call.shape(0).rank() >= 2 && call.shape(1).rank() >= 2, "a and b must have at least 2 dimensions");
  const Sides a = sides(call.shape(0), call.flag("transpose_a"));
  const Sides b = sides(call.shape(1), call.flag("transpose_b"));
  require_product(call, a, b);
  const auto batch = broadcast_shapes(batch_of(call.shape(0)), batch_of(call.shape(1)));
  call.require(batch.has_value(), "the batch dimensions, before the last two, must be equal or 1, from the last on");
  return {{call.input(0).dtype, matrices(*batch, a.rows, b.columns)}};
}

std::vector<Type> infer_matmul_sum(const OpCall& call) {
  const Type product = infer_matmul(call)[0];
  const Dims& batch = call.dims("batch");
  if (!broadcasts_to(batch, batch_of(product.shape))) {
    call.reject(
        fmt::format("batch {} must broadcast to the product's, {}", batch.text(), batch_of(product.shape).text()));
  }
  return {{product.dtype, matrices(batch, product.shape.back(2), product.shape.back(1))}};
}

// The product with the batch dimensions of `like`, summed over those it was broadcast along.
Value product_like(Builder& b, Value like, Value a, Value z, MatmulOptions options) {
  const Dims batch = batch_of(b.shape(like));
  const bool whole = broadcast_shapes(batch_of(b.shape(a)), batch_of(b.shape(z))) == batch;
  return whole ? matmul(b, a, z, options) : matmul_sum(b, a, z, batch, options);
}

// With A and B the operands as multiplied, dA = dY B' and dB = A' dY; a transposed operand takes the transpose of that.
// dB first: it is the last to read A, often the larger, which is then free before dA is made.
void differentiate_matmul(Gradient& g) {
  const bool ta = g.attribute("transpose_a").flag();
  const bool tb = g.attribute("transpose_b").flag();
  const Value a = g.input(0);
  const Value b = g.input(1);
  const Value dy = g.of_output();
  if (g.wants(1)) g.set(1, tb ? product_like(g.b, b, dy, a, {true, ta}) : product_like(g.b, b, a, dy, {!ta, false}));
  if (g.wants(0)) g.set(0, ta ? product_like(g.b, a, b, dy, {tb, true}) : product_like(g.b, a, dy, b, {false, !tb}));
}

Dim matmul_flops(const OpCall& call) {
  const Type product = infer_matmul(call)[0];
  return Dim(2) * product.shape.elements() * sides(call.shape(0), call.flag("transpose_a")).columns;
}

// As a linear layer: rows of a by rows of a matrix of weights.
std::optional<QuantizedForm> quantized_matmul(const OpCall& call) {
  const bool is_linear = call.flag("transpose_b") && !call.flag("transpose_a") && call.shape(1).rank() == 2;
  return is_linear ? std::optional(QuantizedForm{.op = "linear_i8"}) : std::nullopt;
}

}  // namespace

Value matmul(Builder& b, Value a, Value z, MatmulOptions options) {
  return b.emit("matmul", {a, z}, {{"transpose_a", options.transpose_a}, {"transpose_b", options.transpose_b}});
}

Value matmul_sum(Builder& b, Value a, Value z, const Dims& batch, MatmulOptions options) {
  return b.emit("matmul_sum", {a, z},
                {{"transpose_a", options.transpose_a}, {"transpose_b", options.transpose_b}, {"batch", batch}});
}

void register_matmul(OpTable& table) {
  const std::vector<AttributeSpec> transposes = {{"transpose_a", AttributeKind::flag, Attribute(false)},
                                                 {"transpose_b", AttributeKind::flag, Attribute(false)}};
  table.add({.name = "matmul",
             .inputs = {"a", "b"},
             .attributes = transposes,
             .infer = infer_matmul,
             .gradient = differentiate_matmul,
             .flops = matmul_flops,
             .traits = {.quantized = quantized_matmul}});
  table.add({.name = "matmul_sum",
             .inputs = {"a", "b"},
             .attributes = {transposes[0], transposes[1], {"batch", AttributeKind::dims, {}}},
             .infer = infer_matmul_sum,
             .flops = matmul_flops});
}

}  // namespace plimsoll::program
