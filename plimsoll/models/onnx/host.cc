#include "plimsoll/models/onnx/host.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "plimsoll/base/error.h"
#include "plimsoll/program/shape_rules.h"

namespace plimsoll::models::onnx_import {
namespace {

// Steps in a stored tensor as it broadcasts to a shape.
std::vector<int64_t> steps_in(const Shape& of, const Shape& to) {
  std::vector<int64_t> steps(static_cast<size_t>(to.rank()), 0);
  int64_t step = 1;
  for (int i = of.rank() - 1; i >= 0; --i) {
    const int place = i + to.rank() - of.rank();
    steps[static_cast<size_t>(place)] = of[i] == 1 ? 0 : step;
    step *= of[i];
  }
  return steps;
}

// Calls f(place in a, place in b, ..) for each element of the shape in row-major order.
template <class F>
void for_each(const Shape& shape, std::span<const std::vector<int64_t>> steps, const F& f) {
  std::vector<int64_t> index(static_cast<size_t>(shape.rank()), 0);
  std::vector<int64_t> places(steps.size(), 0);
  const int64_t count = shape.elements();
  for (int64_t n = 0; n < count; ++n) {
    f(places);
    for (int axis = shape.rank() - 1; axis >= 0; --axis) {
      const auto at = static_cast<size_t>(axis);
      ++index[at];
      for (size_t k = 0; k < steps.size(); ++k) places[k] += steps[k][at];
      if (index[at] < shape[axis]) break;
      for (size_t k = 0; k < steps.size(); ++k) places[k] -= index[at] * steps[k][at];
      index[at] = 0;
    }
  }
}

std::optional<Shape> stored_shape(const Shape& a, const Shape& b) {
  const auto both = program::broadcast_shapes(Dims(a), Dims(b));
  if (!both) return std::nullopt;
  const Shape shape = both->shape();
  if (shape.elements() > kMostHostElements) return std::nullopt;
  return shape;
}

// An empty tensor for the result of a function of both.
std::optional<HostTensor> result_of(const HostTensor& a, const HostTensor& b, ElementKind kind) {
  const auto dims = program::broadcast_shapes(a.dims, b.dims);
  const auto stored = stored_shape(a.stored, b.stored);
  if (!dims || !stored || dims->rank() != stored->rank()) return std::nullopt;
  HostTensor result{kind, *dims, *stored};
  const auto count = static_cast<size_t>(stored->elements());
  if (kind == ElementKind::real) {
    result.reals.reserve(count);
  } else {
    result.ints.reserve(count);
  }
  return result;
}

template <class F>
void for_both(const HostTensor& y, const HostTensor& a, const HostTensor& b, const F& f) {
  const std::array steps = {steps_in(a.stored, y.stored), steps_in(b.stored, y.stored)};
  for_each(y.stored, steps,
           [&](const std::vector<int64_t>& at) { f(static_cast<size_t>(at[0]), static_cast<size_t>(at[1])); });
}

void copy_element(const HostTensor& from, size_t place, HostTensor& into) {
  if (from.is_real()) {
    into.reals.push_back(from.reals[place]);
  } else {
    into.ints.push_back(from.ints[place]);
  }
}

// With elements repeated until the stored shape is this one.
HostTensor spread(const HostTensor& x, const Shape& stored) {
  if (x.stored == stored) return x;
  HostTensor y{x.kind, x.dims, stored};
  const std::array steps = {steps_in(x.stored, stored)};
  for_each(stored, steps, [&](const std::vector<int64_t>& at) { copy_element(x, static_cast<size_t>(at[0]), y); });
  return y;
}

Shape with_size(const Shape& shape, int axis, int64_t size) {
  std::vector<int64_t> dims(shape.dims().begin(), shape.dims().end());
  dims[static_cast<size_t>(axis)] = size;
  return Shape(dims);
}

}  // namespace

bool HostTensor::is_uniform() const {
  if (is_real()) return std::all_of(reals.begin(), reals.end(), [&](double x) { return x == reals[0]; });
  return std::all_of(ints.begin(), ints.end(), [&](Dim x) { return x == ints[0]; });
}

HostTensor HostTensor::unfolded() const {
  const Shape shape = dims.shape();
  if (stored != shape && shape.elements() > kMostHostElements) {
    throw ArgumentError(fmt::format("{} numbers, which are more than are computed on the host", shape.text()));
  }
  return spread(*this, shape);
}

int64_t host_number(int64_t number) {
  constexpr int64_t kLeast = INT64_MIN / 4;  // below, a Dim is no number
  return std::max(number, kLeast);
}

HostTensor host_scalar(ElementKind kind, double value) { return host_fill(kind, {}, value); }

HostTensor host_integer(int64_t value) { return {ElementKind::integer, {}, {}, {Dim(host_number(value))}}; }

HostTensor host_ints(std::span<const Dim> values) {
  const auto count = static_cast<int64_t>(values.size());
  return {ElementKind::integer, {count}, Shape{count}, {values.begin(), values.end()}};
}

HostTensor host_fill(ElementKind kind, const Dims& dims, double value) {
  const bool is_empty = std::find(dims.begin(), dims.end(), Dim(0)) != dims.end();
  std::vector<int64_t> ones;
  for (const Dim dim : dims) ones.push_back(dim == Dim(0) ? 0 : 1);
  HostTensor filled{kind, dims, Shape(ones)};
  if (is_empty) return filled;
  if (kind == ElementKind::real) {
    filled.reals = {value};
  } else {
    filled.ints = {Dim(static_cast<int64_t>(value))};
  }
  return filled;
}

HostTensor host_fill(const HostTensor& x, const Dims& dims) {
  HostTensor filled = host_fill(x.kind, dims, 0);
  if (filled.count() == 0) return filled;
  if (x.is_real()) {
    filled.reals[0] = x.reals[0];
  } else {
    filled.ints[0] = x.ints[0];
  }
  return filled;
}

HostTensor read_host(const TensorData& data) {
  HostTensor tensor{data.kind(), Dims(data.shape()), data.shape()};
  const auto count = static_cast<size_t>(data.elements());
  if (tensor.is_real()) {
    tensor.reals.resize(count);
    data.read(std::span(tensor.reals), 0);
    return tensor;
  }
  std::vector<int64_t> ints(count);
  data.read(std::span(ints), 0);
  for (const int64_t i : ints) tensor.ints.emplace_back(host_number(i));
  return tensor;
}

std::optional<int> compare(Dim a, Dim b) {
  const auto sign = [](int64_t x) { return x > 0 ? 1 : (x < 0 ? -1 : 0); };
  if (a.is_constant() && b.is_constant()) return a.constant() > b.constant() ? 1 : (a == b ? 0 : -1);
  const Dim difference = a - b;
  if (difference.is_constant()) return sign(difference.constant());
  std::set<std::string> symbols;
  difference.collect_symbols(symbols);
  program::Bindings least;
  program::Bindings most;
  for (const std::string& symbol : symbols) {
    least[symbol] = 1;
    most[symbol] = 1 << 12;
  }
  const int low = sign(difference.bind(least).constant());
  return low != 0 && low == sign(difference.bind(most).constant()) ? std::optional(low) : std::nullopt;
}

std::optional<HostTensor> map_ints(const HostTensor& a, const HostTensor& b, ElementKind kind, const IntFunction& f) {
  if (a.is_real() || b.is_real()) return std::nullopt;
  auto y = result_of(a, b, kind);
  if (!y) return std::nullopt;
  bool known = true;
  for_both(*y, a, b, [&](size_t i, size_t j) {
    const auto element = known ? f(a.ints[i], b.ints[j]) : std::nullopt;
    known = known && element.has_value();
    y->ints.push_back(element.value_or(0));
  });
  return known ? y : std::nullopt;
}

std::optional<HostTensor> map_reals(const HostTensor& a, const HostTensor& b, const RealFunction& f) {
  if (!a.is_real() || !b.is_real()) return std::nullopt;
  auto y = result_of(a, b, ElementKind::real);
  if (y) for_both(*y, a, b, [&](size_t i, size_t j) { y->reals.push_back(f(a.reals[i], b.reals[j])); });
  return y;
}

std::optional<HostTensor> map_tests(const HostTensor& a, const HostTensor& b, const RealFunction& f) {
  if (!a.is_real() || !b.is_real()) return std::nullopt;
  auto y = result_of(a, b, ElementKind::boolean);
  if (y) for_both(*y, a, b, [&](size_t i, size_t j) { y->ints.emplace_back(f(a.reals[i], b.reals[j]) != 0 ? 1 : 0); });
  return y;
}

std::optional<HostTensor> host_where(const HostTensor& condition, const HostTensor& x, const HostTensor& z) {
  if (x.kind != z.kind || condition.is_real()) return std::nullopt;
  const auto both = result_of(x, z, x.kind);
  if (!both) return std::nullopt;
  auto y = result_of(condition, *both, x.kind);
  if (!y) return std::nullopt;
  const std::array steps = {steps_in(condition.stored, y->stored), steps_in(x.stored, y->stored),
                            steps_in(z.stored, y->stored)};
  bool known = true;
  for_each(y->stored, steps, [&](const std::vector<int64_t>& at) {
    const Dim choice = condition.ints[static_cast<size_t>(at[0])];
    known = known && choice.is_constant();
    const bool holds = known && choice.constant() != 0;
    copy_element(holds ? x : z, static_cast<size_t>(holds ? at[1] : at[2]), *y);
  });
  return known ? y : std::nullopt;
}

std::optional<HostTensor> host_cast(const HostTensor& x, ElementKind kind) {
  HostTensor y{kind, x.dims, x.stored};
  if (x.is_real()) {
    if (kind == ElementKind::real) return x;
    for (const double real : x.reals) {
      if (kind == ElementKind::integer && !(std::abs(real) < 0x1p62)) return std::nullopt;
      y.ints.emplace_back(kind == ElementKind::boolean ? int64_t{real != 0} : static_cast<int64_t>(real));
    }
    return y;
  }
  for (const Dim element : x.ints) {
    if (kind == ElementKind::integer) {
      y.ints.push_back(element);
      continue;
    }
    if (!element.is_constant()) return std::nullopt;
    if (kind == ElementKind::real) {
      y.reals.push_back(static_cast<double>(element.constant()));
    } else {
      y.ints.emplace_back(element.constant() != 0 ? 1 : 0);
    }
  }
  return y;
}

std::optional<HostTensor> host_reshape(const HostTensor& x, const Dims& dims) {
  if (x.count() > 0 && x.is_uniform()) return host_fill(x, dims);
  if (x.dims.is_constant() && dims.is_constant()) {
    if (x.dims.shape().elements() > kMostHostElements || dims.shape().elements() != x.dims.shape().elements()) {
      return std::nullopt;
    }
    HostTensor y = x.unfolded();
    y.dims = dims;
    y.stored = dims.shape();
    return y;
  }
  // Dimensions of 1 come and go; all others stay in their order.
  std::vector<int64_t> stored;
  int from = 0;
  const auto skip_ones = [&] {
    while (from < x.dims.rank() && x.dims[from] == Dim(1)) ++from;
  };
  for (const Dim dim : dims) {
    if (dim == Dim(1)) {
      stored.push_back(1);
      continue;
    }
    skip_ones();
    if (from >= x.dims.rank() || x.dims[from] != dim) return std::nullopt;
    stored.push_back(x.stored[from++]);
  }
  skip_ones();
  if (from != x.dims.rank()) return std::nullopt;
  HostTensor y = x;
  y.dims = dims;
  y.stored = Shape(stored);
  return y;
}

std::optional<HostTensor> host_transpose(const HostTensor& x, std::span<const int64_t> axes) {
  if (static_cast<int>(axes.size()) != x.dims.rank()) return std::nullopt;
  Dims dims;
  std::vector<int64_t> stored;
  const std::vector<int64_t> all = steps_in(x.stored, x.stored);
  std::vector<int64_t> steps;
  for (const int64_t axis : axes) {
    if (axis < 0 || axis >= x.dims.rank()) return std::nullopt;
    dims.push_back(x.dims[static_cast<int>(axis)]);
    stored.push_back(x.stored[static_cast<int>(axis)]);
    steps.push_back(all[static_cast<size_t>(axis)]);
  }
  HostTensor y{x.kind, dims, Shape(stored)};
  const std::array walk = {steps};
  for_each(y.stored, walk, [&](const std::vector<int64_t>& at) { copy_element(x, static_cast<size_t>(at[0]), y); });
  return y;
}

std::optional<HostTensor> host_expand(const HostTensor& x, const Dims& dims) {
  const auto both = program::broadcast_shapes(x.dims, dims);
  if (!both) return std::nullopt;
  HostTensor y = x;
  std::vector<int64_t> stored(static_cast<size_t>(both->rank() - x.dims.rank()), 1);
  for (int i = 0; i < both->rank(); ++i) {
    if ((*both)[i] == Dim(0)) return host_fill(x.kind, *both, 0);
  }
  stored.insert(stored.end(), x.stored.dims().begin(), x.stored.dims().end());
  y.dims = *both;
  y.stored = Shape(stored);
  return y;
}

std::optional<HostTensor> host_concat(std::span<const HostTensor* const> xs, int axis) {
  HostTensor y{xs[0]->kind, xs[0]->dims, xs[0]->stored};
  Dim size = 0;
  int64_t along = 0;
  Shape others = with_size(xs[0]->stored, axis, 1);
  for (const HostTensor* x : xs) {
    if (x->kind != y.kind || x->dims.rank() != y.dims.rank() || !x->dims[axis].is_constant()) return std::nullopt;
    size = size + x->dims[axis];
    along += x->dims[axis].constant();
    const auto wider = stored_shape(others, with_size(x->stored, axis, 1));
    if (!wider) return std::nullopt;
    others = *wider;
  }
  if (along == 0 || along > kMostHostElements || others.elements() > kMostHostElements / along) return std::nullopt;
  y.dims[axis] = size;
  y.stored = with_size(others, axis, along);
  std::vector<HostTensor> parts;
  for (const HostTensor* x : xs) parts.push_back(spread(*x, with_size(others, axis, x->dims[axis].constant())));
  int64_t outer = 1;
  int64_t inner = 1;
  for (int i = 0; i < axis; ++i) outer *= others[i];
  for (int i = axis + 1; i < others.rank(); ++i) inner *= others[i];
  for (int64_t o = 0; o < outer; ++o) {
    for (const HostTensor& part : parts) {
      const int64_t run = part.stored[axis] * inner;
      for (int64_t i = 0; i < run; ++i) copy_element(part, static_cast<size_t>(o * run + i), y);
    }
  }
  return y;
}

std::optional<HostTensor> host_pick(const HostTensor& x, int axis, std::span<const int64_t> places) {
  HostTensor y{x.kind, x.dims, x.stored};
  const auto count = static_cast<int64_t>(places.size());
  y.dims[axis] = count;
  if (x.stored[axis] == 1 && count > 0) {
    y.reals = x.reals;
    y.ints = x.ints;
    return y;
  }
  y.stored = with_size(x.stored, axis, count);
  if (y.stored.elements() > kMostHostElements) return std::nullopt;
  int64_t outer = 1;
  int64_t inner = 1;
  for (int i = 0; i < axis; ++i) outer *= x.stored[i];
  for (int i = axis + 1; i < x.stored.rank(); ++i) inner *= x.stored[i];
  for (int64_t o = 0; o < outer; ++o) {
    for (const int64_t place : places) {
      for (int64_t i = 0; i < inner; ++i) {
        copy_element(x, static_cast<size_t>((o * x.stored[axis] + place) * inner + i), y);
      }
    }
  }
  return y;
}

std::optional<HostTensor> host_gather(const HostTensor& x, const HostTensor& index, int axis) {
  if (!x.dims[axis].is_constant() || index.is_real() || !index.dims.is_constant()) return std::nullopt;
  const int64_t size = x.dims[axis].constant();
  if (index.dims.shape().elements() > kMostHostElements) return std::nullopt;
  std::vector<int64_t> places;
  for (const Dim place : index.unfolded().ints) {
    if (!place.is_constant()) return std::nullopt;
    const int64_t at = place.constant() < 0 ? place.constant() + size : place.constant();
    if (at < 0 || at >= size) return std::nullopt;
    places.push_back(at);
  }
  auto y = host_pick(x, axis, places);
  if (!y || index.dims.rank() == 1) return y;
  Dims dims;
  std::vector<int64_t> stored;
  for (int i = 0; i < y->dims.rank(); ++i) {
    if (i != axis) {
      dims.push_back(y->dims[i]);
      stored.push_back(y->stored[i]);
      continue;
    }
    for (const Dim dim : index.dims) {
      dims.push_back(dim);
      stored.push_back(y->stored[i] == 1 ? 1 : dim.constant());
    }
  }
  y->dims = dims;
  y->stored = Shape(stored);
  return y;
}

}  // namespace plimsoll::models::onnx_import
