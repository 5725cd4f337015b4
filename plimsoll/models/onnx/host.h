// Tensors whose elements are known while a graph is imported: constants, and what is computed of shapes. Whole numbers
// are Dims, so that a shape may have `batch` in it. A dimension along which all elements are the same is stored once,
// which is how tensors with a dimension `batch` can be known at all.
#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "plimsoll/models/onnx/tensor_data.h"
#include "plimsoll/program/type.h"

namespace plimsoll::models::onnx_import {

using program::Dim;
using program::Dims;

struct HostTensor {
  ElementKind kind = ElementKind::integer;
  Dims dims;                   // as the graph sees it
  Shape stored;                // the same rank; 1 where the elements are the same all along the dimension
  std::vector<Dim> ints = {};  // of integers and booleans
  std::vector<double> reals = {};

  bool is_real() const { return kind == ElementKind::real; }
  size_t count() const { return is_real() ? reals.size() : ints.size(); }  // stored
  bool is_uniform() const;                                                 // all elements are the same
  // All of them in row-major order; dims must be numbers. ArgumentError for more than kMostHostElements.
  HostTensor unfolded() const;
};

// More elements than this are not computed on the host.
inline constexpr int64_t kMostHostElements = int64_t{1} << 22;

// A whole number of a file as a Dim may hold it: the least ones, with which exporters say "from the start", are cut.
int64_t host_number(int64_t number);

HostTensor host_scalar(ElementKind kind, double value);
HostTensor host_integer(int64_t value);
HostTensor host_ints(std::span<const Dim> values);  // one dimension
// Every element is `value`.
HostTensor host_fill(ElementKind kind, const Dims& dims, double value);
// Every element is the first of `x`, which has one.
HostTensor host_fill(const HostTensor& x, const Dims& dims);
HostTensor read_host(const TensorData& data);

// 1, 0 or -1 as a is more than, equal to or less than b for all sizes of at least 1; nothing when that depends on them.
std::optional<int> compare(Dim a, Dim b);

// One operand, or two that broadcast. Nothing where an element cannot be told.
using IntFunction = std::function<std::optional<Dim>(Dim, Dim)>;
using RealFunction = std::function<double(double, double)>;
std::optional<HostTensor> map_ints(const HostTensor& a, const HostTensor& b, ElementKind kind, const IntFunction& f);
std::optional<HostTensor> map_reals(const HostTensor& a, const HostTensor& b, const RealFunction& f);
// Comparisons of reals.
std::optional<HostTensor> map_tests(const HostTensor& a, const HostTensor& b, const RealFunction& f);
std::optional<HostTensor> host_where(const HostTensor& condition, const HostTensor& x, const HostTensor& z);
std::optional<HostTensor> host_cast(const HostTensor& x, ElementKind kind);

// These keep the elements or pick from them; nothing where the stored form cannot follow.
std::optional<HostTensor> host_reshape(const HostTensor& x, const Dims& dims);
std::optional<HostTensor> host_transpose(const HostTensor& x, std::span<const int64_t> axes);
std::optional<HostTensor> host_expand(const HostTensor& x, const Dims& dims);
std::optional<HostTensor> host_concat(std::span<const HostTensor* const> xs, int axis);
// Places along an axis, in this order.
std::optional<HostTensor> host_pick(const HostTensor& x, int axis, std::span<const int64_t> places);
std::optional<HostTensor> host_gather(const HostTensor& x, const HostTensor& index, int axis);

}  // namespace plimsoll::models::onnx_import
