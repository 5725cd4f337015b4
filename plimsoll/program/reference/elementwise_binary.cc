#include <cmath>

#include "plimsoll/program/evaluate.h"
#include "plimsoll/program/reference/index.h"

namespace plimsoll::program {
namespace {

template <class T>
size_t place_in(const Run<T>& run, int operand, const Index& index) {
  const Shape& shape = run.shape(operand);
  return place_of(shape, broadcast_index(shape, run.out().shape.rank(), index));
}

// Calls f(place in y, place in operand a, place in operand c) for every element of y.
template <class T, class F>
void for_each_pair(const Run<T>& run, int a, int c, F f) {
  for_each_index(run.out().shape,
                 [&](const Index& index, size_t y) { f(y, place_in(run, a, index), place_in(run, c, index)); });
}

// y = f(x, z)
template <class F>
void arithmetic(OpTable& table, const char* op, F f) {
  table.reference(op, [f](auto& run) {
    on_numbers(run.in(0), [&](auto of) {
      for_each_pair(run, 0, 1,
                    [&](size_t y, size_t x, size_t z) { of(run.out())[y] = f(of(run.in(0))[x], of(run.in(1))[z]); });
    });
  });
}

// The bool f(x, z)
template <class F>
void predicate(OpTable& table, const char* op, F f) {
  table.reference(op, [f](auto& run) {
    on_numbers(run.in(0), [&](auto of) {
      for_each_pair(run, 0, 1,
                    [&](size_t y, size_t x, size_t z) { run.out().ints[y] = f(of(run.in(0))[x], of(run.in(1))[z]); });
    });
  });
}

// x where takes(x, z), else z, and a bit for each element that says so.
template <class F>
void choice(OpTable& table, const char* op, F takes) {
  table.reference(op, [takes](auto& run) {
    on_numbers(run.in(0), [&](auto of) {
      for_each_pair(run, 0, 1, [&](size_t y, size_t x, size_t z) {
        const bool taken = takes(of(run.in(0))[x], of(run.in(1))[z]);
        of(run.out())[y] = taken ? of(run.in(0))[x] : of(run.in(1))[z];
        if (run.wants(1) && taken) run.out(1).ints[y / 8] |= 1 << (y % 8);
      });
    });
  });
}

// dy * slope(x, z), all as broadcast
template <class F>
void pow_backward(OpTable& table, const char* op, F slope) {
  table.reference(op, [slope](auto& run) {
    for_each_pair(run, 1, 2, [&](size_t y, size_t x, size_t z) {
      run.out().reals[y] = run.reals(0)[y] * slope(run.reals(1)[x], run.reals(2)[z]);
    });
  });
}

template <class T>
void where(Run<T>& run) {
  on_numbers(run.in(1), [&](auto of) {
    for_each_index(run.out().shape, [&](const Index& index, size_t y) {
      const int taken = run.ints(0)[place_in(run, 0, index)] != 0 ? 1 : 2;
      of(run.out())[y] = of(run.in(taken))[place_in(run, taken, index)];
    });
  });
}

template <class T>
void keep_where(Run<T>& run) {
  on_numbers(run.in(0), [&](auto of) {
    for_each_index(run.out().shape, [&](const Index& index, size_t y) {
      const bool holds = run.ints(1)[place_in(run, 1, index)] != 0;
      if (holds == run.call.flag("when")) of(run.out())[y] = of(run.in(0))[y];
    });
  });
}

void register_arithmetic(OpTable& table) {
  arithmetic(table, "add", [](auto x, auto z) { return x + z; });
  arithmetic(table, "sub", [](auto x, auto z) { return x - z; });
  arithmetic(table, "mul", [](auto x, auto z) { return x * z; });
  arithmetic(table, "div", [](auto x, auto z) { return x / z; });
  arithmetic(table, "pow", [](auto x, auto z) { return std::pow(x, z); });
  pow_backward(table, "pow_backward_base", [](auto x, auto z) { return z == 0 ? 0 : z * std::pow(x, z - 1); });
  pow_backward(table, "pow_backward_exponent",
               [](auto x, auto z) { return x == 0 && z >= 0 ? 0 : std::pow(x, z) * std::log(x); });
  // NaN wins, whichever operand it is in.
  choice(table, "maximum", [](auto x, auto z) { return x >= z || x != x; });
  choice(table, "minimum", [](auto x, auto z) { return x <= z || x != x; });
}

void register_predicates(OpTable& table) {
  predicate(table, "eq", [](auto x, auto z) { return x == z; });
  predicate(table, "ne", [](auto x, auto z) { return x != z; });
  predicate(table, "lt", [](auto x, auto z) { return x < z; });
  predicate(table, "le", [](auto x, auto z) { return x <= z; });
  predicate(table, "gt", [](auto x, auto z) { return x > z; });
  predicate(table, "ge", [](auto x, auto z) { return x >= z; });
  predicate(table, "logical_and", [](auto x, auto z) { return x != 0 && z != 0; });
  predicate(table, "logical_or", [](auto x, auto z) { return x != 0 || z != 0; });
  predicate(table, "logical_xor", [](auto x, auto z) { return (x != 0) != (z != 0); });
  table.reference("logical_not", [](auto& run) {
    for (size_t i = 0; i < run.ints(0).size(); ++i) run.out().ints[i] = run.ints(0)[i] == 0;
  });
}

}  // namespace

void register_elementwise_binary_reference(OpTable& table) {
  register_arithmetic(table);
  register_predicates(table);
  table.reference("where", [](auto& run) { where(run); });
  table.reference("keep_where", [](auto& run) { keep_where(run); });
}

}  // namespace plimsoll::program
