// Sums of exponentials along lines of an array, for the reference evaluations.
#pragma once

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

namespace plimsoll::program {

// The largest of some elements, and the sum of exp(x - largest) over them: a sum of exponentials that cannot overflow.
template <class T>
struct ExpSum {
  T largest;
  T sum;
};

template <class T>
ExpSum<T> exp_sum(const std::vector<T>& x, const std::vector<size_t>& places) {
  ExpSum<T> result{-std::numeric_limits<T>::infinity(), 0};
  for (const size_t at : places) result.largest = std::max(result.largest, x[at]);
  for (const size_t at : places) result.sum += std::exp(x[at] - result.largest);
  return result;
}

// log(sum(exp(x))) over them; minus infinity for none or only minus infinities.
template <class T>
T log_sum_exp(const std::vector<T>& x, const std::vector<size_t>& places) {
  const ExpSum<T> all = exp_sum(x, places);
  return std::isinf(all.largest) ? all.largest : all.largest + std::log(all.sum);
}

}  // namespace plimsoll::program
