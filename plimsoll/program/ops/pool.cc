#include "plimsoll/program/ops/pool.h"

#include <fmt/format.h>

#include "plimsoll/program/autodiff.h"
#include "plimsoll/program/window.h"

namespace plimsoll::program {
namespace {

void require_padding_in_window(const OpCall& call, const Window& window) {
  for (int axis = 0; axis < window.rank(); ++axis) {
    const int64_t span = window.span(axis).constant();
    const bool sees_x = window.begin[axis].constant() < span && window.end[axis].constant() < span;
    if (!sees_x)
      call.reject(fmt::format("padding {} must be less than a window spans ({})", call.dims("padding").text(), span));
  }
}

// The shape of the result for an x.
Dims pool_shape(const OpCall& call, const Dims& x) {
  const int rank = spatial(call, x).rank();
  const Window window = window_of(call, spread_over(call, "kernel", rank, 0));
  require_padding_in_window(call, window);
  Dims y = {x[0], x[1]};
  for (const Dim count : window_counts(call, window, x, call.flag("ceil_mode"))) y.push_back(count);
  return y;
}

// A place in a window needs a byte while windows are small.
DType window_index(const OpCall& call, const Dims& x) {
  const Dim elements = spread_over(call, "kernel", x.rank() - 2, 0).elements();
  return elements.constant() <= 256 ? DType::u8 : DType::i32;
}

DType plane_index(const OpCall& /*call*/, const Dims& /*x*/) { return DType::i32; }

// What a kind of pool is: the rules of its result and its indices.
struct PoolKind {
  std::string name;
  Dims (*shape)(const OpCall&, const Dims& x);
  DType (*index)(const OpCall&, const Dims& x);  // nullptr: an average, which saves nothing
  std::vector<AttributeSpec> attributes;
  Dim (*flops)(const OpCall&, const Dims& x, const Dims& y);  // of the forward pass
};

// One for each element of each window.
Dim window_flops(const OpCall& call, const Dims& x, const Dims& y) {
  return y.elements() * spread_over(call, "kernel", x.rank() - 2, 0).elements();
}

// Adaptive windows cover x about once.
Dim adaptive_flops(const OpCall& /*call*/, const Dims& x, const Dims& /*y*/) { return x.elements(); }

// A maximum gives dy to one element of a window, an average to all.
Dim backward_flops(const PoolKind& pool, const OpCall& call) {
  const Dims& y = call.shape(0);
  return pool.index != nullptr ? y.elements() : pool.flops(call, call.output(0).shape, y);
}

std::vector<Type> infer_pool(const PoolKind& pool, const OpCall& call) {
  call.require_floating(0);
  const Dims y = pool.shape(call, call.shape(0));
  if (pool.index == nullptr) return {{call.input(0).dtype, y}};
  return {{call.input(0).dtype, y}, {pool.index(call, call.shape(0)), y}};
}

std::vector<Type> infer_pool_backward(const PoolKind& pool, const OpCall& call) {
  call.require_floating(0);
  const Dims& x = call.dims("shape");
  const Dims y = pool.shape(call, x);
  if (call.shape(0) != y) call.reject(fmt::format("dy must be {}, the shape of the result", y.text()));
  if (pool.index != nullptr) {
    const Type expected{pool.index(call, x), y};
    if (call.input(1) != expected) call.reject(fmt::format("indices must be {}", expected.text()));
  }
  return {{call.input(0).dtype, x}};
}

void differentiate_pool(const PoolKind& pool, Gradient& g) {
  std::vector<Value> reads = {g.of_output()};
  if (pool.index != nullptr) reads.push_back(g.saved(1));
  std::vector<NamedAttribute> attributes = g.attributes();
  attributes.emplace_back("shape", g.b.shape(g.input(0)));
  g.set(0, g.b.emit(pool.name + "_backward", reads, attributes));
}

// A pool and its pool_backward(dy, indices?).
void add_pair(OpTable& table, const PoolKind& pool) {
  const bool saves = pool.index != nullptr;
  table.add({.name = pool.name,
             .inputs = {"x"},
             .outputs = saves ? std::vector<std::string>{"y", "indices?"} : std::vector<std::string>{"y"},
             .attributes = pool.attributes,
             .infer = [pool](const OpCall& call) { return infer_pool(pool, call); },
             .gradient = [pool](Gradient& g) { differentiate_pool(pool, g); },
             .flops = [pool](const OpCall& c) { return pool.flops(c, c.shape(0), c.output(0).shape); },
             .traits = {.sign = Sign::kept}});
  std::vector<AttributeSpec> attributes = pool.attributes;
  attributes.push_back({"shape", AttributeKind::dims, {}});
  table.add({.name = pool.name + "_backward",
             .inputs = saves ? std::vector<std::string>{"dy", "indices"} : std::vector<std::string>{"dy"},
             .outputs = {"dx"},
             .attributes = attributes,
             .infer = [pool](const OpCall& call) { return infer_pool_backward(pool, call); },
             .flops = [pool](const OpCall& c) { return backward_flops(pool, c); }});
}

std::vector<AttributeSpec> pool_attributes() {
  std::vector<AttributeSpec> all = window_attributes();
  all.push_back({"kernel", AttributeKind::integers, {}});
  all.push_back({"ceil_mode", AttributeKind::flag, Attribute(false)});
  return all;
}

std::vector<NamedAttribute> named(const PoolOptions& options) {
  return {{"kernel", options.kernel},
          {"stride", options.stride.empty() ? options.kernel : options.stride},
          {"padding", options.padding},
          {"dilation", options.dilation},
          {"ceil_mode", options.ceil_mode}};
}

}  // namespace

Value max_pool(Builder& b, Value x, const PoolOptions& options) {
  return b.emit("max_pool", std::vector{x}, named(options));
}

Value avg_pool(Builder& b, Value x, const PoolOptions& options) {
  std::vector<NamedAttribute> attributes = named(options);
  attributes.emplace_back("count_include_pad", options.count_include_pad);
  return b.emit("avg_pool", std::vector{x}, attributes);
}

Value adaptive_max_pool(Builder& b, Value x, const Dims& size) {
  return b.emit("adaptive_max_pool", {x}, {{"size", size}});
}

Value adaptive_avg_pool(Builder& b, Value x, const Dims& size) {
  return b.emit("adaptive_avg_pool", {x}, {{"size", size}});
}

Value global_max_pool(Builder& b, Value x) { return adaptive_max_pool(b, x, {1}); }
Value global_avg_pool(Builder& b, Value x) { return adaptive_avg_pool(b, x, {1}); }

void register_pool(OpTable& table) {
  std::vector<AttributeSpec> average = pool_attributes();
  average.push_back({"count_include_pad", AttributeKind::flag, Attribute(true)});
  const std::vector<AttributeSpec> size = {{"size", AttributeKind::dims, {}}};
  add_pair(table, {"max_pool", pool_shape, window_index, pool_attributes(), window_flops});
  add_pair(table, {"avg_pool", pool_shape, nullptr, average, window_flops});
  add_pair(table, {"adaptive_max_pool", sized, plane_index, size, adaptive_flops});
  add_pair(table, {"adaptive_avg_pool", sized, nullptr, size, adaptive_flops});
}

}  // namespace plimsoll::program
