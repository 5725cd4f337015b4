// Gradients of programs. Backward ops are ordinary ops of phase `backward` that name exactly what they read, so a
// planner can drop and recompute it. Only ops between the wanted values and the roots get backward ops.
#pragma once

#include <span>
#include <vector>

#include "plimsoll/program/builder.h"

namespace plimsoll::program {

class Gradient;

// A value to differentiate, and the gradient that flows into it: of the same type, or nothing for ones.
struct Root {
  Value value;
  Value seed = {};
};

// Appends the backward ops and returns the gradient of sum(root * seed) for each of `wanted`, in order; nothing for one
// that no root depends on. The phase is as before afterwards. ArgumentError that names the value when a wanted value or
// a root is not floating, or an op on the way has no gradient.
std::vector<Value> gradients(Builder& builder, std::span<const Root> roots, std::span<const Value> wanted);
// For a loss: one element.
std::vector<Value> gradients(Builder& builder, Value loss, std::span<const Value> wanted);

// The rule of ops whose gradient is zero: it emits nothing.
void zero_gradient(Gradient& gradient);

// What a gradient rule sees of the op it differentiates.
class Gradient {
 public:
  Gradient(Builder& b, size_t op, std::span<const Value> output_gradients, const std::vector<bool>& wanted);

  Builder& b;  // NOLINT: rules emit through it

  int arity() const { return static_cast<int>(inputs_.size()); }
  int outputs() const { return static_cast<int>(output_gradients_.size()); }
  Value input(int i) const { return inputs_[static_cast<size_t>(i)]; }  // nothing when left out
  Value output(int k = 0) const;
  // An optional output of the op, made now if it is not there: what only the backward pass needs.
  Value saved(int k);
  // The gradient of output k; nothing when the loss does not depend on it.
  Value of_output(int k = 0) const { return output_gradients_[static_cast<size_t>(k)]; }
  // Whether the gradient of input i is asked for. Emit nothing for those that are not.
  bool wants(int i) const { return wanted_[static_cast<size_t>(input(i).index)]; }
  // Says what the gradient of input i is. It has the input's type. Ignored when not wanted.
  void set(int i, Value gradient);

  const Attribute& attribute(std::string_view name) const;
  // All attributes, for a backward op that has the same ones.
  std::vector<NamedAttribute> attributes() const;
  // An integer attribute that names a dimension of input 0, counted from the end when negative.
  int axis(std::string_view name) const;

 private:
  friend class Backward;
  size_t op_;
  std::vector<Value> inputs_;  // copies: emitting moves the program's vectors
  std::span<const Value> output_gradients_;
  const std::vector<bool>& wanted_;
  std::vector<Value> results_;  // for each input
};

}  // namespace plimsoll::program
