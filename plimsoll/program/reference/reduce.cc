#include <algorithm>
#include <cmath>

#include "plimsoll/program/evaluate.h"
#include "plimsoll/program/reference/index.h"

namespace plimsoll::program {
namespace {

using Group = std::vector<size_t>;  // places of the elements that become one

// Calls visit(place in the result, group) for each group of an array of this shape, by the attribute `axes`.
template <class T, class F>
void for_each_group(const Run<T>& run, const Shape& shape, F visit) {
  const auto all = groups(shape, reduced_axes(run.call, shape.rank()));
  for (size_t i = 0; i < all.size(); ++i) visit(i, all[i]);
}

template <class Numbers>
auto total(const Numbers& x, const Group& group) {
  typename Numbers::value_type sum = 0;
  for (const size_t at : group) sum += x[at];
  return sum;
}

template <class Numbers>
auto product(const Numbers& x, const Group& group) {
  typename Numbers::value_type product = 1;
  for (const size_t at : group) product *= x[at];
  return product;
}

template <class T>
T mean(const std::vector<T>& x, const Group& group) {
  return total(x, group) / static_cast<T>(group.size());
}

// y = f(x, group)
template <class F>
void reduction(OpTable& table, const char* op, F f) {
  table.reference(op, [f](auto& run) {
    on_numbers(run.in(0), [&](auto of) {
      for_each_group(run, run.shape(0),
                     [&](size_t y, const Group& group) { of(run.out())[y] = f(of(run.in(0)), group); });
    });
  });
}

// The first element of the group that no other is `better` than; NaN is better than all.
template <class F>
void extreme(OpTable& table, const char* op, F better) {
  table.reference(op, [better](auto& run) {
    on_numbers(run.in(0), [&](auto of) {
      const auto& x = of(run.in(0));
      for_each_group(run, run.shape(0), [&](size_t y, const Group& group) {
        size_t best = 0;
        for (size_t i = 1; i < group.size(); ++i) {
          const auto a = x[group[i]];
          const auto b = x[group[best]];
          if (better(a, b) || (a != a && b == b)) best = i;
        }
        of(run.out())[y] = x[group[best]];
        if (run.wants(1)) run.out(1).ints[y] = static_cast<int64_t>(best);
      });
    });
  });
}

template <class T>
void extreme_backward(Run<T>& run) {
  for_each_group(run, run.out().shape, [&](size_t y, const Group& group) {
    run.out().reals[group[static_cast<size_t>(run.ints(1)[y])]] = run.reals(0)[y];
  });
}

// The product of all others, by multiplying them: a zero among them is no special case.
template <class T>
void prod_backward(Run<T>& run) {
  for_each_group(run, run.shape(1), [&](size_t y, const Group& group) {
    for (const size_t at : group) {
      Group others = group;
      std::erase(others, at);
      run.out().reals[at] = run.reals(0)[y] * product(run.reals(1), others);
    }
  });
}

template <class T>
T norm2(const std::vector<T>& x, const Group& group) {
  T sum = 0;
  for (const size_t at : group) sum += x[at] * x[at];
  return std::sqrt(sum);
}

// Zero where the norm is: the corner has no slope.
template <class T>
void norm2_backward(Run<T>& run) {
  for_each_group(run, run.shape(1), [&](size_t y, const Group& group) {
    const T norm = run.reals(2)[y];
    for (const size_t at : group) run.out().reals[at] = norm == 0 ? 0 : run.reals(0)[y] * run.reals(1)[at] / norm;
  });
}

template <class T>
T degrees_of_freedom(const Run<T>& run, const Group& group) {
  return static_cast<T>(static_cast<int64_t>(group.size()) - run.call.integer("correction"));
}

template <class T>
void var(Run<T>& run) {
  for_each_group(run, run.shape(0), [&](size_t y, const Group& group) {
    const T centre = mean(run.reals(0), group);
    T sum = 0;
    for (const size_t at : group) sum += (run.reals(0)[at] - centre) * (run.reals(0)[at] - centre);
    run.out().reals[y] = sum / degrees_of_freedom(run, group);
  });
}

template <class T>
void var_backward(Run<T>& run) {
  for_each_group(run, run.shape(1), [&](size_t y, const Group& group) {
    const T centre = mean(run.reals(1), group);
    const T scale = 2 * run.reals(0)[y] / degrees_of_freedom(run, group);
    for (const size_t at : group) run.out().reals[at] = scale * (run.reals(1)[at] - centre);
  });
}

}  // namespace

void register_reduce_reference(OpTable& table) {
  reduction(table, "sum", [](const auto& x, const Group& group) { return total(x, group); });
  reduction(table, "prod", [](const auto& x, const Group& group) { return product(x, group); });
  table.reference("mean", [](auto& run) {
    for_each_group(run, run.shape(0),
                   [&](size_t y, const Group& group) { run.out().reals[y] = mean(run.reals(0), group); });
  });
  table.reference("norm2", [](auto& run) {
    for_each_group(run, run.shape(0),
                   [&](size_t y, const Group& group) { run.out().reals[y] = norm2(run.reals(0), group); });
  });
  extreme(table, "max", [](auto a, auto b) { return a > b; });
  extreme(table, "min", [](auto a, auto b) { return a < b; });
  table.reference("var", [](auto& run) { var(run); });
  table.reference("extreme_backward", [](auto& run) { extreme_backward(run); });
  table.reference("prod_backward", [](auto& run) { prod_backward(run); });
  table.reference("norm2_backward", [](auto& run) { norm2_backward(run); });
  table.reference("var_backward", [](auto& run) { var_backward(run); });
}

}  // namespace plimsoll::program
