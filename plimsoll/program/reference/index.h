// Walking arrays by index, for the reference evaluations.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "plimsoll/program/evaluate.h"
#include "plimsoll/program/shape_rules.h"

namespace plimsoll::program {

// One number for each dimension of a shape.
using Index = std::array<int64_t, Shape::kMaxRank>;

// The place of an index in a row-major array of this shape.
inline size_t place_of(const Shape& shape, const Index& index) {
  int64_t place = 0;
  for (int axis = 0; axis < shape.rank(); ++axis) place = place * shape[axis] + index[static_cast<size_t>(axis)];
  return static_cast<size_t>(place);
}

// Calls visit(index, place) for every element of a row-major array of this shape, in order.
template <class F>
void for_each_index(const Shape& shape, F visit) {
  Index index{};
  const auto count = static_cast<size_t>(shape.elements());
  for (size_t place = 0; place < count; ++place) {
    visit(static_cast<const Index&>(index), place);
    for (int axis = shape.rank() - 1; axis >= 0; --axis) {
      int64_t& i = index[static_cast<size_t>(axis)];
      if (++i < shape[axis]) break;
      i = 0;
    }
  }
}

// Which of an array's vectors holds its numbers.
struct Reals {
  template <class A>
  auto& operator()(A& array) const {
    return array.reals;
  }
};
struct Ints {
  template <class A>
  auto& operator()(A& array) const {
    return array.ints;
  }
};

// Calls f with Reals or Ints, as x has them, for what does the same with both.
template <class T, class F>
void on_numbers(const Array<T>& x, F f) {
  if (is_floating(x.dtype)) {
    f(Reals{});
  } else {
    f(Ints{});
  }
}

// y[i] = x[from(i)] for every index i of y.
template <class T, class F>
void pull(const Array<T>& x, Array<T>& y, F from) {
  on_numbers(x, [&](auto of) {
    for_each_index(y.shape, [&](const Index& i, size_t place) { of(y)[place] = of(x)[place_of(x.shape, from(i))]; });
  });
}

// y[to(i)] += x[i] for every index i of x: what pull does, transposed.
template <class T, class F>
void push(const Array<T>& x, Array<T>& y, F to) {
  on_numbers(x, [&](auto of) {
    for_each_index(x.shape, [&](const Index& i, size_t place) { of(y)[place_of(y.shape, to(i))] += of(x)[place]; });
  });
}

// The index in an operand of this shape that broadcasting shows at `index` of a result of rank `rank`.
inline Index broadcast_index(const Shape& shape, int rank, const Index& index) {
  Index from{};
  for (int axis = 0; axis < shape.rank(); ++axis) {
    const auto place = static_cast<size_t>(axis + rank - shape.rank());
    from[static_cast<size_t>(axis)] = shape[axis] == 1 ? 0 : index[place];
  }
  return from;
}

// For each element that a reduction over `axes` makes, in order, the places of the elements that it is made of.
inline std::vector<std::vector<size_t>> groups(const Shape& shape, AxisSet axes) {
  const Shape kept = reduced_shape(Dims(shape), axes, true).shape();
  std::vector<std::vector<size_t>> all(static_cast<size_t>(kept.elements()));
  for_each_index(shape, [&](const Index& index, size_t place) {
    all[place_of(kept, broadcast_index(kept, shape.rank(), index))].push_back(place);
  });
  return all;
}

}  // namespace plimsoll::program
