#include "plimsoll/models/zoo/transformer.h"

#include "plimsoll/program/ops/attention.h"
#include "plimsoll/program/ops/shape.h"
#include "plimsoll/program/ops/slice.h"

namespace plimsoll::models {
namespace {

// [batch, sequence, width] to [batch, heads, sequence, width / heads]: views.
Value by_head(Net& net, Value x, int64_t heads) {
  const Dims shape = net.b.shape(x);
  const Value apart = program::reshape(net.b, x, {shape[0], shape[1], heads, shape[2].constant() / heads});
  return program::transpose(net.b, apart, {0, 2, 1, 3});
}

}  // namespace

Value attend(Net& net, Value q, Value k, Value v, const Heads& heads) {
  const Dims shape = net.b.shape(q);
  const Value mixed = program::attention(net.b, by_head(net, q, heads.count), by_head(net, k, heads.count),
                                         by_head(net, v, heads.count), {.causal = heads.causal});
  return program::reshape(net.b, program::transpose(net.b, mixed, {0, 2, 1, 3}), shape);
}

Value self_attend(Net& net, Value qkv, const Heads& heads) {
  const std::vector<Value> parts = program::split(net.b, qkv, 2, 3);
  return attend(net, parts[0], parts[1], parts[2], heads);
}

}  // namespace plimsoll::models
