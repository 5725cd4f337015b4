#include "plimsoll/models/onnx/draws.h"

#include <fmt/format.h>

#include "plimsoll/base/error.h"
#include "plimsoll/program/ops/constant.h"
#include "plimsoll/program/ops/dropout.h"
#include "plimsoll/program/ops/elementwise_binary.h"
#include "plimsoll/program/ops/elementwise_unary.h"

namespace plimsoll::models::onnx_import {
namespace {

namespace p = program;

constexpr std::string_view kNoMask =
    "random numbers that are not compared with the share of a mask, as those of dropout and stochastic depth are";

const Draw* draw_at(const NodeCall& call, int i) { return call.has(i) ? call.tensor(i).draw.get() : nullptr; }

void set_draw(const NodeCall& call, const Draw& draw) {
  Tensor made;
  made.element_type = draw.is_mask() ? TensorProto::BOOL : TensorProto::FLOAT;
  made.draw = std::make_shared<const Draw>(draw);
  call.set(0, std::move(made));
}

Draw mask_of(NodeCall& call, const Dims& dims, double share) {
  if (!(share >= 0 && share <= 1)) call.unsupported(fmt::format("a mask whose elements are true with {}", share));
  Draw mask{.dims = dims, .share = share};
  Net& net = call.in.net;
  if (net.training() && share > 0 && share < 1) {
    mask.scaled = p::dropout(call.b, p::fill(call.b, 1, {net.dtype(), dims}), net.dropout_seed(), {.rate = 1 - share});
  }
  if (!net.training()) call.in.note("what is dropped at random in training mode is left out in inference");
  return mask;
}

// 0 and 1; in inference the share that is 1.
Value numbers_of(NodeCall& call, const Draw& mask) {
  if (mask.scaled) return p::affine(call.b, mask.scaled, {.scale = *mask.share});
  return p::fill(call.b, *mask.share, {call.in.net.dtype(), mask.dims});
}

// The number that all elements of the other operand are, where it does not widen the draw.
std::optional<double> number_beside(const NodeCall& call, int i, const Draw& draw) {
  const HostTensor* known = call.try_host(i);
  if (known == nullptr || !known->is_real() || known->count() == 0 || !known->is_uniform()) return std::nullopt;
  if (known->dims != draw.dims && known->dims.elements() != Dim(1)) return std::nullopt;
  return known->reals[0];
}

bool import_comparison(NodeCall& call) {
  const std::string& op = call.node.op_type();
  const bool is_less = op == "Less" || op == "LessOrEqual";
  if (!is_less && op != "Greater" && op != "GreaterOrEqual") return false;
  const int at = draw_at(call, 0) != nullptr ? 0 : 1;
  const Draw& draw = *draw_at(call, at);
  if (draw.is_mask()) return false;
  const auto bound = number_beside(call, 1 - at, draw);
  if (!bound) return false;
  const double below = *bound - draw.shift;
  set_draw(call, mask_of(call, draw.dims, is_less == (at == 0) ? below : 1 - below));
  return true;
}

bool import_sum(NodeCall& call) {
  if (call.node.op_type() != "Add") return false;
  const int at = draw_at(call, 0) != nullptr ? 0 : 1;
  Draw draw = *draw_at(call, at);
  const auto more = number_beside(call, 1 - at, draw);
  if (draw.is_mask() || !more) return false;
  draw.shift += *more;
  set_draw(call, draw);
  return true;
}

bool import_floor(NodeCall& call) {
  const Draw& draw = *draw_at(call, 0);
  if (call.node.op_type() != "Floor" || draw.is_mask() || draw.shift < 0 || draw.shift > 1) return false;
  call.set(0, numbers_of(call, mask_of(call, draw.dims, draw.shift)), TensorProto::FLOAT);
  return true;
}

bool import_cast(NodeCall& call) {
  if (call.node.op_type() != "Cast") return false;
  const auto to = static_cast<int>(call.integer("to", TensorProto::FLOAT));
  if (element_kind(call.in.file(), to, "a cast") != ElementKind::real) return false;
  const Draw& draw = *draw_at(call, 0);
  if (draw.is_mask()) {
    call.set(0, numbers_of(call, draw), to);
  } else {
    set_draw(call, draw);
  }
  return true;
}

void import_uniform(NodeCall& call, const Dims& dims) {
  if (call.in.options().as_written) call.unsupported("what is drawn is random");
  call.require(call.real("low", 0) == 0 && call.real("high", 1) == 1, "random numbers that are not from 0 to 1");
  set_draw(call, {.dims = dims});
}

void import_uniform_like(NodeCall& call) { import_uniform(call, call.shape(0)); }

void import_uniform_of_shape(NodeCall& call) {
  std::vector<Dim> dims;
  for (const int64_t dim : call.integers("shape")) dims.emplace_back(dim);
  import_uniform(call, Dims(dims));
}

void import_bernoulli(NodeCall& call) {
  if (call.in.options().as_written) call.unsupported("what is drawn is random");
  const HostTensor* share = call.try_host(0);
  call.require(share != nullptr && share->is_real() && share->count() > 0 && share->is_uniform(),
               "a share that is known and the same for all elements");
  const auto type = static_cast<int>(call.integer("dtype", call.element_type(0)));
  const Draw mask = mask_of(call, call.shape(0), share->reals[0]);
  if (element_kind(call.in.file(), type, "Bernoulli") != ElementKind::real) return set_draw(call, mask);
  call.set(0, numbers_of(call, mask), type);
}

constexpr RuleEntry kRandomRules[] = {
    {"RandomUniformLike", import_uniform_like},
    {"RandomUniform", import_uniform_of_shape},
    {"Bernoulli", import_bernoulli},
};

}  // namespace

Value drawn_value(Importer& importer, const Draw& draw) {
  if (!draw.is_mask()) {
    throw UnsupportedError(fmt::format("{}: {}", importer.file().name, kNoMask));
  }
  Builder& b = importer.net.b;
  if (!draw.scaled) {  // in inference nothing is dropped
    const bool is_true = *draw.share > 0;
    return p::cast(b, p::fill(b, is_true ? 1 : 0, {DType::i64, draw.dims}), DType::boolean);
  }
  return p::cast(b, draw.scaled, DType::boolean);
}

bool import_drawn(NodeCall& call) {
  const bool is_drawn = draw_at(call, 0) != nullptr;
  if (!is_drawn && draw_at(call, 1) == nullptr) return false;
  if (import_comparison(call) || import_sum(call)) return true;
  if (is_drawn && (import_floor(call) || import_cast(call))) return true;
  const Draw& draw = *draw_at(call, is_drawn ? 0 : 1);
  const std::string& op = call.node.op_type();
  if (!draw.is_mask() && op != "Shape" && op != "Size") call.unsupported(kNoMask);
  return false;
}

RuleFamily random_rules() { return {"", kRandomRules}; }

}  // namespace plimsoll::models::onnx_import
