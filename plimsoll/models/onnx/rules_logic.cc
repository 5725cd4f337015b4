// Comparisons, truth, choices and casts.
#include <cmath>

#include "plimsoll/models/onnx/node.h"
#include "plimsoll/program/ops/elementwise_binary.h"
#include "plimsoll/program/ops/elementwise_unary.h"

namespace plimsoll::models::onnx_import {
namespace {

namespace p = program;

template <Value (*F)(Builder&, Value, Value)>
void test(NodeCall& call) {
  call.set(0, F(call.b, call.compact(0), call.compact(1)), TensorProto::BOOL);
}

void import_not(NodeCall& call) { call.set(0, p::logical_not(call.b, call.value(0)), TensorProto::BOOL); }

void import_where(NodeCall& call) {
  call.set(0, p::where(call.b, call.compact(0), call.compact(1), call.compact(2)), call.element_type(1));
}

void import_is_nan(NodeCall& call) {
  const Value x = call.value(0);
  call.set(0, p::ne(call.b, x, x), TensorProto::BOOL);
}

void import_is_inf(NodeCall& call) {
  Builder& b = call.b;
  const Value x = call.value(0);
  const bool up = call.flag("detect_positive", true);
  const bool down = call.flag("detect_negative", true);
  const DType dtype = call.dtype(0);
  if (!up && !down) return call.set(0, p::logical_and(b, p::lt(b, x, x), p::gt(b, x, x)), TensorProto::BOOL);
  Value found;
  if (up) found = p::eq(b, x, call.scalar(INFINITY, dtype));
  if (down) {
    const Value low = p::eq(b, x, call.scalar(-INFINITY, dtype));
    found = up ? p::logical_or(b, found, low) : low;
  }
  call.set(0, found, TensorProto::BOOL);
}

DType stored_dtype(int type) {
  switch (type) {
    case TensorProto::FLOAT16:
      return DType::f16;
    case TensorProto::BFLOAT16:
      return DType::bf16;
    case TensorProto::INT8:
      return DType::i8;
    case TensorProto::UINT8:
      return DType::u8;
    case TensorProto::INT16:
      return DType::i16;
    case TensorProto::INT32:
      return DType::i32;
    default:
      return DType::f32;
  }
}

// Through the narrow type, so that what does not fit is rounded or cut as there.
Value cast_through(NodeCall& call, Value x, int to) {
  const ElementKind kind = element_kind(call.in.file(), to, "a cast");
  call.require(element_bits(to) > (kind == ElementKind::real ? 8 : 4), "a cast to so few bits");
  const DType target = call.in.dtype_of(kind);
  if (target == DType::boolean) return call.as(x, target);
  const DType narrow = stored_dtype(to);
  if (target == DType::i64 && (narrow == DType::f32 || is_integer(narrow))) {
    return call.wrapped(call.as(x, target), to);
  }
  if (narrow == DType::f32 || narrow == target) return call.as(x, target);
  if (call.in.net.dtype() != DType::f32 && kind == ElementKind::real) return call.as(x, target);
  return p::cast(call.b, p::cast(call.b, x, narrow), target);
}

void import_cast(NodeCall& call) {
  const int to = static_cast<int>(call.integer("to", TensorProto::FLOAT));
  const int from = call.element_type(0);
  const bool is_same_kind = element_kind(call.in.file(), to, "a cast") == call.kind(0);
  const bool widens = element_bits(to) >= 32 || (from != 0 && from == to);
  // Weights of a file in lower precision are read as they are.
  if (is_same_kind && widens) {
    Tensor same = call.tensor(0);
    same.element_type = to;
    return call.set(0, same);
  }
  call.set(0, cast_through(call, call.value(0), to), to);
}

void import_cast_like(NodeCall& call) {
  const int to = call.element_type(1);
  call.require(to != 0, "the type to cast to is not known");
  if (const HostTensor* known = call.try_host(0); known != nullptr && element_bits(to) >= 32) {
    if (auto cast = host_cast(*known, element_kind(call.in.file(), to, "a cast"))) return call.set(0, *cast, to);
  }
  call.set(0, cast_through(call, call.value(0), to), to);
}

constexpr RuleEntry kLogicRules[] = {
    {"Equal", test<p::eq>},      {"Less", test<p::lt>},           {"LessOrEqual", test<p::le>},
    {"Greater", test<p::gt>},    {"GreaterOrEqual", test<p::ge>}, {"And", test<p::logical_and>},
    {"Or", test<p::logical_or>}, {"Xor", test<p::logical_xor>},   {"Not", import_not},
    {"Where", import_where},     {"IsNaN", import_is_nan},        {"IsInf", import_is_inf},
    {"Cast", import_cast},       {"CastLike", import_cast_like},
};

}  // namespace

RuleFamily logic_rules() { return {"", kLogicRules}; }

}  // namespace plimsoll::models::onnx_import
