// The reference evaluator: runs a bound program op by op in plain C++, in f64 or f32. Slow and right; the referee for
// kernels and passes. All floating dtypes are computed in T (f16 and bf16 are not rounded); integers and booleans in
// int64_t. Every value is an array of its own in row-major order: views are copied.
#pragma once

#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "plimsoll/program/op.h"

namespace plimsoll::program {

// Floating values are in `reals`, all others in `ints`; the other vector is empty.
template <class T>
struct Array {
  DType dtype = DType::f32;
  Shape shape;
  std::vector<T> reals;
  std::vector<int64_t> ints;

  Array() = default;
  explicit Array(const TensorSpec& spec);  // zeros
  int64_t elements() const { return static_cast<int64_t>(is_floating(dtype) ? reals.size() : ints.size()); }
};

template <class T>
using Arrays = std::map<std::string, Array<T>, std::less<>>;

// What the values of an op are computed from and into.
template <class T>
struct Run {
  using Real = T;

  const OpCall& call;                       // attributes and types
  std::span<const Array<T>* const> inputs;  // as many as were given
  std::span<Array<T>> outputs;              // zeros of the right shape; empty arrays for those not made
  std::vector<bool> made;                   // whether output k is made

  int arity() const { return static_cast<int>(inputs.size()); }
  const Array<T>& in(int i) const { return *inputs[static_cast<size_t>(i)]; }
  const std::vector<T>& reals(int i) const { return in(i).reals; }
  const std::vector<int64_t>& ints(int i) const { return in(i).ints; }
  const Shape& shape(int i) const { return in(i).shape; }
  Array<T>& out(int k = 0) const { return outputs[static_cast<size_t>(k)]; }
  bool wants(int k) const { return made[static_cast<size_t>(k)]; }
};

template <class T>
struct Evaluation {
  std::vector<Array<T>> values;  // by Value::index
  Arrays<T> outputs;             // of the program, by name
  Arrays<T> after;               // parameters and state as the step leaves them, by name
};

// `given` has an array for every input, parameter and state value. ArgumentError names the one that is missing or has
// another type, the value that is not bound, the op that has no reference.
template <class T>
Evaluation<T> evaluate(const Program& program, const Arrays<T>& given);

}  // namespace plimsoll::program
