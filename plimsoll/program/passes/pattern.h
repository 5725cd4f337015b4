// How passes recognise what exporters write. A pattern looks at an op as the root of an expression and says which op
// would do the same from which operands; everything else (whether the expression is the root's alone, where the new op
// stands, what becomes dead) is the same for all and done here.
#pragma once

#include <functional>
#include <optional>
#include <string_view>
#include <vector>

#include "plimsoll/program/builder.h"
#include "plimsoll/program/passes/facts.h"

namespace plimsoll::program {

// A view of an operand that the new op reads in its place.
struct OperandView {
  size_t operand = 0;
  std::string_view op;
  NamedAttribute attribute;
};

struct Replacement {
  std::string_view op;
  std::vector<Value> operands;
  std::vector<NamedAttribute> attributes = {};
  std::vector<OperandView> views = {};
};

using Pattern = std::function<std::optional<Replacement>(const Facts&, const Op& root)>;

// The program with every expression that matches replaced by one op, which makes the root's result. An expression is
// left as it is when something else reads a part of it, when other work than making its operands stands between its
// first and last op (so that nothing is kept longer than before), and when the new op's own rules do not allow it.
Program rewrite(Program program, const Pattern& pattern);

// Puts an op before op `place` and returns its first output.
Value insert_op(Program& program, size_t place, std::string_view op, std::vector<Value> operands,
                std::vector<NamedAttribute> attributes);

// What every element of the value is, where that is known: a fill, or a view of one.
std::optional<double> uniform(const Facts& facts, Value value);

// Near enough for a constant that was written in f32.
bool about(double found, double wanted);

// value = scale * base + shift, with all scalings and shifts by constants taken off.
struct Scaled {
  Value base;
  double scale = 1;
  double shift = 0;
};
Scaled peel(const Facts& facts, Value value);

// value = constant * product of the factors. Products, powers and scalings are multiplied out, but for `whole`, which
// stand as they are. A factor of another type than the value ends the search, too.
struct Product {
  double constant = 1;
  std::vector<Value> factors;
};
Product multiply_out(const Facts& facts, Value value, const std::vector<Value>& whole);

// x when the value is x * x.
Value squared(const Facts& facts, Value value);

}  // namespace plimsoll::program
