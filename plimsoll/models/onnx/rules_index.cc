// Ops that take or put elements where integers say, and ops along one dimension.
#include <fmt/format.h>

#include <algorithm>

#include "plimsoll/models/onnx/node.h"
#include "plimsoll/program/ops/along_axis.h"
#include "plimsoll/program/ops/constant.h"
#include "plimsoll/program/ops/elementwise_binary.h"
#include "plimsoll/program/ops/elementwise_unary.h"
#include "plimsoll/program/ops/index.h"
#include "plimsoll/program/ops/shape.h"
#include "plimsoll/program/ops/slice.h"

namespace plimsoll::models::onnx_import {
namespace {

namespace p = program;

// The one number that all elements of an operand are, in these dims.
bool set_uniform(NodeCall& call, const Dims& dims) {
  const HostTensor* known = call.try_host(0);
  if (known == nullptr || known->count() == 0 || !known->is_uniform()) return false;
  call.set(0, host_fill(*known, dims), call.element_type(0));
  return true;
}

void import_gather(NodeCall& call) {
  const Dims shape = call.shape(0);
  const Dims index = call.shape(1);
  const int axis = call.axis(call.integer("axis", 0), shape.rank());
  Dims dims;
  for (int i = 0; i < axis; ++i) dims.push_back(shape[i]);
  for (const Dim dim : index) dims.push_back(dim);
  for (int i = axis + 1; i < shape.rank(); ++i) dims.push_back(shape[i]);
  if (set_uniform(call, dims)) return;
  // One place that is known is a view.
  if (const HostTensor* place = call.try_host(1);
      place != nullptr && !place->is_real() && index.elements() == Dim(1) && place->count() == 1) {
    const Dim at = place->ints[0];
    const Dim start = at.is_constant() && at.constant() < 0 ? shape[axis] + at : at;
    if (start.is_constant() && shape[axis].is_constant() &&
        (start.constant() < 0 || start.constant() >= shape[axis].constant())) {
      call.reject(fmt::format("place {} of dimension {}, which has {}: is the graph written for another size?",
                              at.text(), axis, shape[axis].text()));
    }
    const Value one = p::slice(call.b, call.value(0), p::Range{.axis = axis, .start = start, .end = start + Dim(1)});
    return call.set_same(p::reshape(call.b, one, dims));
  }
  const bool is_table = axis == 0 && shape.rank() == 2 && call.tensor(0).weight != nullptr;
  const Value x = call.value(0);
  call.set_same(is_table && !call.in.options().as_written ? p::embedding(call.b, x, call.value(1))
                                                          : p::gather(call.b, x, call.value(1), axis));
}

void import_gather_elements(NodeCall& call) {
  if (set_uniform(call, call.shape(1))) return;
  const int axis = call.axis(call.integer("axis", 0), call.rank(0));
  call.set_same(p::gather_elements(call.b, call.value(0), call.value(1), axis));
}

// Places in the first dimensions of x, taken as one, of tuples of indices along the last dimension of `index`.
struct FlatIndex {
  Value index;  // [n]
  Dim lines;    // elements of the dimensions that are indexed
  Dims rest;    // dimensions of x that are not
};

FlatIndex flat_index(NodeCall& call, int batch_dims) {
  Builder& b = call.b;
  const Dims shape = call.shape(0);
  const Dims tuples = call.shape(1);
  call.require(tuples.rank() > 0 && tuples.back().is_constant(), "the size of the index tuples must be known");
  const auto width = static_cast<int>(tuples.back().constant());
  if (width + batch_dims > shape.rank()) call.reject("index tuples that are longer than the operand has dimensions");
  const Value index = call.value(1);
  Dims outer(std::span<const Dim>(tuples.begin(), tuples.end() - 1));
  FlatIndex flat{{}, 1, {}};
  for (int i = batch_dims + width; i < shape.rank(); ++i) flat.rest.push_back(shape[i]);
  Value sum;
  const auto add_axis = [&](Value along, Dim size) {
    sum = sum ? p::add(b, p::mul(b, sum, p::fill(b, static_cast<double>(size.constant()), {DType::i64, {}})), along)
              : along;
    flat.lines = flat.lines * size;
  };
  for (int i = 0; i < batch_dims; ++i) {
    Dims dims;
    for (int k = 0; k < outer.rank(); ++k) dims.push_back(k == i ? shape[i] : Dim(1));
    const Value ones = p::fill(b, 1, {DType::i64, {shape[i]}});
    add_axis(p::reshape(b, p::cumsum(b, ones, 0, {.exclusive = true}), dims), shape[i]);
  }
  for (int j = 0; j < width; ++j) {
    const Dim size = shape[batch_dims + j];
    call.require(size.is_constant() || (j == 0 && batch_dims == 0), "the dimensions that are indexed must be known");
    Value along = p::slice(b, index, p::Range{.axis = tuples.rank() - 1, .start = j, .end = j + 1});
    along = p::reshape(b, along, outer);
    if (size.is_constant()) {
      const Value zero = call.scalar(0, DType::i64);
      const Value whole = p::fill(b, static_cast<double>(size.constant()), {DType::i64, {}});
      along = p::where(b, p::lt(b, along, zero), p::add(b, along, whole), along);
    }
    if (j == 0 && batch_dims == 0) {
      sum = along;
      flat.lines = size;
    } else {
      add_axis(along, size);
    }
  }
  flat.index = p::reshape(b, p::expand(b, sum, outer), {outer.elements()});
  return flat;
}

Dims joined(const Dims& front, const Dims& back) {
  Dims all = front;
  for (const Dim dim : back) all.push_back(dim);
  return all;
}

void import_gather_nd(NodeCall& call) {
  const Dims tuples = call.shape(1);
  const auto batch_dims = static_cast<int>(call.integer("batch_dims", 0));
  if (batch_dims < 0 || batch_dims >= tuples.rank()) call.reject("batch_dims that makes no sense");
  const Dims outer(std::span<const Dim>(tuples.begin(), tuples.end() - 1));
  Dims rest;
  const int64_t width = tuples.back().constant();
  for (int i = batch_dims + static_cast<int>(width); i < call.rank(0); ++i) rest.push_back(call.shape(0)[i]);
  if (set_uniform(call, joined(outer, rest))) return;
  const FlatIndex flat = flat_index(call, batch_dims);
  const Value lines = p::reshape(call.b, call.value(0), joined({flat.lines}, flat.rest));
  call.set_same(p::reshape(call.b, p::gather(call.b, lines, flat.index, 0), joined(outer, flat.rest)));
}

Value scattered(NodeCall& call, Value x, Value index, Value updates, int axis) {
  const std::string how = call.text("reduction", "none");
  call.require(how == "none" || how == "add", "only replaces or adds");
  return how == "add" ? p::scatter_add(call.b, x, index, updates, axis)
                      : p::scatter_elements(call.b, x, index, updates, axis);
}

void import_scatter_elements(NodeCall& call) {
  const int axis = call.axis(call.integer("axis", 0), call.rank(0));
  call.set_same(scattered(call, call.value(0), call.value(1), call.value(2), axis));
}

void import_scatter_nd(NodeCall& call) {
  Builder& b = call.b;
  const FlatIndex flat = flat_index(call, 0);
  const Dim count = b.shape(flat.index)[0];
  const Value lines = p::reshape(b, call.value(0), {flat.lines, flat.rest.elements()});
  const Value updates = p::reshape(b, call.value(2), {count, flat.rest.elements()});
  const Value index = p::expand(b, p::reshape(b, flat.index, {count, 1}), {count, flat.rest.elements()});
  call.set_same(p::reshape(b, scattered(call, lines, index, updates, 0), call.shape(0)));
}

void import_one_hot(NodeCall& call) {
  Builder& b = call.b;
  const std::vector<Dim> depth = call.is_real(1) ? std::vector<Dim>{static_cast<int64_t>(call.real_of(1, "the depth"))}
                                                 : call.dims_of(1, "the depth");
  if (depth.size() != 1 || !depth[0].is_constant()) call.reject("the depth must be one number");
  const std::vector<double> values = call.reals_of(2, "the values");
  if (values.size() != 2) call.reject("the values must be two numbers");
  const int rank = call.rank(0) + 1;
  const int axis = call.axis(call.integer("axis", -1), rank);
  // A negative index counts from the end; one that is out of range makes a line without a one.
  const Value index = call.as(call.value(0), DType::i64);
  Dims line;
  Dims place;
  int next = 0;
  for (int i = 0; i < rank; ++i) {
    line.push_back(i == axis ? depth[0] : Dim(1));
    place.push_back(i == axis ? Dim(1) : call.shape(0)[next++]);
  }
  const Value ones = p::fill(b, 1, {DType::i64, {depth[0]}});
  const Value count = p::reshape(b, p::cumsum(b, ones, 0, {.exclusive = true}), line);
  const Value zero = call.scalar(0, DType::i64);
  const Value size = p::fill(b, static_cast<double>(depth[0].constant()), {DType::i64, {}});
  const Value front = p::where(b, p::lt(b, index, zero), p::add(b, index, size), index);
  const Value hit = p::eq(b, p::reshape(b, front, place), count);
  const DType dtype = call.dtype(2);
  call.set(0, p::where(b, hit, call.scalar(values[1], dtype), call.scalar(values[0], dtype)), call.element_type(2));
}

Value reversed(Builder& b, Value x, int axis) {
  return p::slice(b, x, p::Range{.axis = axis, .start = -1, .step = -1});
}

template <Value (*F)(Builder&, Value, int, bool)>
void import_arg(NodeCall& call) {
  Builder& b = call.b;
  const int axis = call.axis(call.integer("axis", 0), call.rank(0));
  const bool keep = call.flag("keepdims", true);
  const Value x = call.as(call.value(0), call.in.net.dtype());
  if (!call.flag("select_last_index")) return call.set(0, F(b, x, axis, keep), TensorProto::INT64);
  const Value last = p::fill(b, static_cast<double>(call.shape(0)[axis].constant() - 1), {DType::i64, {}});
  call.set(0, p::sub(b, last, F(b, reversed(b, x, axis), axis, keep)), TensorProto::INT64);
}

void import_top_k(NodeCall& call) {
  const int axis = call.axis(call.integer("axis", -1), call.rank(0));
  const std::vector<Dim> k = call.opset < 10 ? std::vector<Dim>{call.integer("k", 1)} : call.dims_of(1, "k");
  if (k.size() != 1) call.reject("k must be one number");
  const Value x = call.as(call.value(0), call.in.net.dtype());
  const p::TopK top = p::top_k(call.b, x, k[0], axis, call.flag("largest", true));
  call.set(0, call.as(top.values, call.dtype(0)), call.element_type(0));
  call.set(1, top.indices, TensorProto::INT64);
}

void import_cumsum(NodeCall& call) {
  const int axis = call.axis(call.int_of(1, "the axis"), call.rank(0));
  call.set_same(
      p::cumsum(call.b, call.value(0), axis, {.exclusive = call.flag("exclusive"), .reverse = call.flag("reverse")}));
}

void import_reverse_sequence(NodeCall& call) {
  Builder& b = call.b;
  const auto batch = static_cast<int>(call.integer("batch_axis", 1));
  const auto time = static_cast<int>(call.integer("time_axis", 0));
  const Dims shape = call.shape(0);
  if (shape.rank() < 2 || batch + time != 1) call.reject("batch_axis and time_axis must be 0 and 1");
  const Dim steps = shape[time];
  Dims along;
  Dims of_batch;
  for (int i = 0; i < shape.rank(); ++i) {
    along.push_back(i == time ? steps : Dim(1));
    of_batch.push_back(i == batch ? shape[batch] : Dim(1));
  }
  const Value ones = p::fill(b, 1, {DType::i64, {steps}});
  const Value place = p::reshape(b, p::cumsum(b, ones, 0, {.exclusive = true}), along);
  const Value length = p::reshape(b, call.value(1), of_batch);
  const Value back = p::sub(b, p::sub(b, length, place), call.scalar(1, DType::i64));
  const Value index = p::where(b, p::lt(b, place, length), back, place);
  call.set_same(p::gather_elements(b, call.value(0), p::expand(b, index, shape), time));
}

void import_compress(NodeCall& call) {
  std::vector<Dim> places;
  const std::vector<int64_t> condition = call.ints_of(1, "the condition");
  for (size_t i = 0; i < condition.size(); ++i) {
    if (condition[i] != 0) places.emplace_back(static_cast<int64_t>(i));
  }
  const bool flat = call.attribute("axis") == nullptr;
  const int axis = flat ? 0 : call.axis(call.integer("axis", 0), call.rank(0));
  Value x = call.value(0);
  if (flat) x = p::reshape(call.b, x, {call.shape(0).elements()});
  const Value index = call.in.constant(host_ints(places), "places");
  call.set_same(p::gather(call.b, x, index, axis));
}

void import_non_zero(NodeCall& call) {
  call.unsupported("how many elements are not zero must be known before the run: only of constants");
}

constexpr RuleEntry kIndexRules[] = {
    {"Gather", import_gather},
    {"GatherElements", import_gather_elements},
    {"GatherND", import_gather_nd},
    {"Scatter", import_scatter_elements},
    {"ScatterElements", import_scatter_elements},
    {"ScatterND", import_scatter_nd},
    {"OneHot", import_one_hot},
    {"ArgMax", import_arg<p::argmax>},
    {"ArgMin", import_arg<p::argmin>},
    {"TopK", import_top_k},
    {"CumSum", import_cumsum},
    {"ReverseSequence", import_reverse_sequence},
    {"Compress", import_compress},
    {"NonZero", import_non_zero},
};

}  // namespace

RuleFamily index_rules() { return {"", kIndexRules}; }

}  // namespace plimsoll::models::onnx_import
