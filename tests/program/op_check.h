// Checks one use of an op in every way that the core can: the inferred type, the verifier, the text form both ways, f32
// against f64 values, expected values where given, every view against its storage, and the gradients of all floating
// operands against central differences. An op family's test is a list of such cases.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "plimsoll/program/builder.h"

namespace plimsoll::program {

// Random numbers, even in [low, high]; whole numbers from low to high for integers; or just these values.
struct Operand {
  Shape shape = {};
  double low = -1;
  double high = 1;
  DType dtype = DType::f32;
  std::vector<double> values = {};
};

// One output or several.
struct Outputs {
  std::vector<Value> values;
  Outputs(Value value) : values{value} {}                              // NOLINT
  Outputs(std::vector<Value> several) : values(std::move(several)) {}  // NOLINT
};

struct OpCase {
  std::vector<Operand> operands;
  std::function<Outputs(Builder&, const std::vector<Value>&)> build;
  std::string type = {};              // of the first output, "f32[3,17]"; empty: not checked
  std::vector<double> expected = {};  // elements of the first output; empty: not checked
  bool differentiable = true;
  double tolerance = 1e-6;  // of gradients, relative to 1 or the gradient, whichever is larger
};

// Reports through GoogleTest.
void check_op(const OpCase& op_case);

// The message of the ArgumentError that `act` throws; empty when it throws none.
std::string error_of(const std::function<void()>& act);

// The odd sizes that every op is checked on.
inline const std::vector<Shape> kOddShapes = {{1}, {3}, {17}, {31}, {257}, {3, 17}, {1, 31}, {2, 3, 5}, {3, 1, 17, 2}};

}  // namespace plimsoll::program
