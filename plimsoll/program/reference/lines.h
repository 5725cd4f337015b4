// Arrays as lines along one dimension, for the reference evaluations.
#pragma once

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "plimsoll/base/shape.h"

namespace plimsoll::program {

// Element i of a line lies at start + i * stride.
struct Line {
  size_t start;
  size_t stride;
  size_t length;

  size_t at(size_t i) const { return start + i * stride; }
};

// Calls visit(line, place) for every line along `axis`; `place` is the line's in an array without that dimension.
template <class F>
void for_each_line(const Shape& shape, int axis, F visit) {
  size_t outer = 1;
  size_t inner = 1;
  for (int i = 0; i < axis; ++i) outer *= static_cast<size_t>(shape[i]);
  for (int i = axis + 1; i < shape.rank(); ++i) inner *= static_cast<size_t>(shape[i]);
  const auto length = static_cast<size_t>(shape[axis]);
  for (size_t o = 0; o < outer; ++o) {
    for (size_t i = 0; i < inner; ++i) visit(Line{o * length * inner + i, inner, length}, o * inner + i);
  }
}

// The largest element of a line, and the sum of exp(x - largest) along it: a sum of exponentials that cannot overflow.
template <class T>
struct ExpSum {
  T largest;
  T sum;
};

template <class T>
ExpSum<T> exp_sum(const std::vector<T>& x, const Line& line) {
  ExpSum<T> result{-std::numeric_limits<T>::infinity(), 0};
  for (size_t i = 0; i < line.length; ++i) result.largest = std::max(result.largest, x[line.at(i)]);
  for (size_t i = 0; i < line.length; ++i) result.sum += std::exp(x[line.at(i)] - result.largest);
  return result;
}

// log(sum(exp(x))) along the line; minus infinity for an empty line or one of minus infinities.
template <class T>
T log_sum_exp(const std::vector<T>& x, const Line& line) {
  const ExpSum<T> all = exp_sum(x, line);
  return std::isinf(all.largest) ? all.largest : all.largest + std::log(all.sum);
}

}  // namespace plimsoll::program
