#include "plimsoll/models/onnx/node.h"

#include <fmt/format.h>

#include "plimsoll/base/error.h"
#include "plimsoll/program/ops/constant.h"
#include "plimsoll/program/ops/elementwise_binary.h"
#include "plimsoll/program/ops/elementwise_unary.h"

namespace plimsoll::models::onnx_import {

std::string node_text(const NodeProto& node) {
  const bool is_plain = node.domain().empty() || node.domain() == "ai.onnx";
  const std::string op = is_plain ? node.op_type() : fmt::format("{}::{}", node.domain(), node.op_type());
  const std::string& name = node.name().empty() && node.output_size() > 0 ? node.output(0) : node.name();
  return fmt::format("node {} ({})", quote(name), op);
}

NodeCall::NodeCall(Importer& importer, const NodeProto& proto, int version)
    : in(importer), b(importer.net.b), node(proto), opset(version) {}

Tensor& NodeCall::tensor(int i) const {
  if (!has(i)) reject(fmt::format("operand {} is missing", i));
  return in.find(node.input(i), node);
}

Value NodeCall::compact(int i) const { return in.compact_value(tensor(i)); }

const HostTensor& NodeCall::host(int i, std::string_view what) const {
  const HostTensor* found = in.host(tensor(i));
  if (found == nullptr) {
    unsupported(fmt::format("{} (operand {}, {}) must be known before the run, and is computed in it", what, i,
                            quote(node.input(i))));
  }
  return *found;
}

std::vector<Dim> NodeCall::dims_of(int i, std::string_view what) const {
  const HostTensor& found = host(i, what);
  if (found.is_real()) reject(fmt::format("{} (operand {}) must be whole numbers", what, i));
  if (!found.dims.is_constant()) unsupported(fmt::format("{} (operand {}) has a size that is not known", what, i));
  return found.unfolded().ints;
}

std::vector<int64_t> NodeCall::ints_of(int i, std::string_view what) const {
  std::vector<int64_t> ints;
  for (const Dim dim : dims_of(i, what)) {
    if (!dim.is_constant()) {
      unsupported(fmt::format("{} (operand {}) depends on {}: give its size with --dim", what, i, dim.text()));
    }
    ints.push_back(dim.constant());
  }
  return ints;
}

std::vector<double> NodeCall::reals_of(int i, std::string_view what) const {
  const HostTensor& found = host(i, what);
  if (!found.dims.is_constant()) unsupported(fmt::format("{} (operand {}) has a size that is not known", what, i));
  HostTensor all = found.unfolded();
  if (all.is_real()) return all.reals;
  std::vector<double> reals;
  for (const Dim dim : all.ints) reals.push_back(static_cast<double>(dim.constant()));
  return reals;
}

int64_t NodeCall::int_of(int i, std::string_view what) const {
  const std::vector<int64_t> ints = ints_of(i, what);
  if (ints.size() != 1) reject(fmt::format("{} (operand {}) has {} elements, expected 1", what, i, ints.size()));
  return ints[0];
}

double NodeCall::real_of(int i, std::string_view what) const {
  const std::vector<double> reals = reals_of(i, what);
  if (reals.size() != 1) reject(fmt::format("{} (operand {}) has {} elements, expected 1", what, i, reals.size()));
  return reals[0];
}

const AttributeProto* NodeCall::attribute(std::string_view name) const {
  for (const AttributeProto& attribute : node.attribute()) {
    if (attribute.name() != name) continue;
    if (attribute.ref_attr_name().empty()) return &attribute;
    const auto& given = in.frames_.back().attributes;  // of the function that this node is in
    const auto found = given.find(attribute.ref_attr_name());
    return found == given.end() ? nullptr : found->second;
  }
  return nullptr;
}

int64_t NodeCall::integer(std::string_view name, int64_t otherwise) const {
  const AttributeProto* found = attribute(name);
  return found == nullptr ? otherwise : host_number(found->i());
}

double NodeCall::real(std::string_view name, double otherwise) const {
  const AttributeProto* found = attribute(name);
  return found == nullptr ? otherwise : static_cast<double>(found->f());
}

std::string NodeCall::text(std::string_view name, std::string_view otherwise) const {
  const AttributeProto* found = attribute(name);
  return found == nullptr ? std::string(otherwise) : found->s();
}

std::vector<int64_t> NodeCall::integers(std::string_view name) const {
  const AttributeProto* found = attribute(name);
  if (found == nullptr) return {};
  std::vector<int64_t> numbers;
  for (const int64_t one : found->ints()) numbers.push_back(host_number(one));
  return numbers;
}

std::vector<double> NodeCall::reals(std::string_view name) const {
  const AttributeProto* found = attribute(name);
  if (found == nullptr) return {};
  return {found->floats().begin(), found->floats().end()};
}

int NodeCall::axis(int64_t given, int rank) const {
  const int64_t axis = given < 0 ? given + rank : given;
  if (axis < 0 || axis >= rank) reject(fmt::format("there is no dimension {} among {}", given, rank));
  return static_cast<int>(axis);
}

std::vector<int64_t> NodeCall::axes(std::string_view name, int operand, int rank) const {
  std::vector<int64_t> found = has(operand) ? ints_of(operand, "axes") : integers(name);
  for (int64_t& one : found) one = axis(one, rank);
  return found;
}

void NodeCall::set(int k, Value value, int element_type) const { set(k, Tensor{element_type, value}); }

void NodeCall::set(int k, HostTensor tensor, int element_type) const {
  set(k, Tensor{element_type, {}, std::make_shared<const HostTensor>(std::move(tensor))});
}

void NodeCall::set(int k, Tensor tensor) const {
  if (!wants(k)) return;
  const auto [place, fresh] = in.frames_.back().names.try_emplace(node.output(k), tensor);
  if (!fresh) reject(fmt::format("{} is made twice", quote(node.output(k))));
}

void NodeCall::reject(std::string_view why) const {
  throw InputError({.source = in.file().name}, fmt::format("{}: {}", node_text(node), why));
}

void NodeCall::unsupported(std::string_view why) const {
  throw UnsupportedError(fmt::format("{}: {}: {}", in.file().name, node_text(node), why));
}

Value NodeCall::scalar(double value, DType dtype) const { return program::fill(b, value, {dtype, {}}); }

Value NodeCall::wrapped(Value value, int element_type) const {
  if (b.type(value).dtype != DType::i64) return value;
  const auto through = [&](DType narrow) { return program::cast(b, program::cast(b, value, narrow), DType::i64); };
  const auto unsigned_of = [&](Value same_bits, double range) {
    const Value below = program::lt(b, same_bits, scalar(0, DType::i64));
    return program::where(b, below, program::add(b, same_bits, scalar(range, DType::i64)), same_bits);
  };
  switch (element_type) {
    case TensorProto::INT8:
      return through(DType::i8);
    case TensorProto::UINT8:
      return through(DType::u8);
    case TensorProto::INT16:
      return through(DType::i16);
    case TensorProto::INT32:
      return in.options().as_written ? through(DType::i32) : value;
    case TensorProto::UINT16:
      return unsigned_of(through(DType::i16), 0x1p16);
    case TensorProto::UINT32:
      return unsigned_of(through(DType::i32), 0x1p32);
    default:
      return value;
  }
}

Value NodeCall::as(Value value, DType dtype) const {
  return b.type(value).dtype == dtype ? value : program::cast(b, value, dtype);
}

}  // namespace plimsoll::models::onnx_import
