#include "tests/program/op_check.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>

#include "plimsoll/base/error.h"
#include "plimsoll/program/autodiff.h"
#include "plimsoll/program/evaluate.h"
#include "plimsoll/program/text.h"
#include "plimsoll/program/verify.h"

namespace plimsoll::program {
namespace {

constexpr int64_t kMostProbes = 24;  // elements of an operand whose gradient is checked

struct Built {
  Program program;
  std::vector<Value> inputs;
  std::vector<Value> outputs;
  std::vector<Value> seeds;      // nothing for an output that is not floating
  std::vector<Value> gradients;  // of the inputs
};

Built build(const OpCase& op_case) {
  Builder b;
  Built built;
  for (const Operand& operand : op_case.operands) {
    const std::string name = fmt::format("x{}", built.inputs.size());
    built.inputs.push_back(b.input(name, {operand.dtype, Dims(operand.shape)}));
  }
  built.outputs = op_case.build(b, built.inputs).values;
  std::vector<Root> roots;
  for (const Value output : built.outputs) {
    const bool floating = is_floating(b.type(output).dtype);
    built.seeds.push_back(floating ? b.input(fmt::format("seed{}", roots.size()), b.type(output)) : Value{});
    if (floating) roots.push_back({output, built.seeds.back()});
    b.output(output);
  }
  std::vector<Value> wanted;
  for (const Value input : built.inputs) {
    if (op_case.differentiable && is_floating(b.type(input).dtype)) wanted.push_back(input);
  }
  const std::vector<Value> found = gradients(b, roots, wanted);
  size_t next = 0;
  for (const Value input : built.inputs) {
    const bool was_wanted = next < wanted.size() && wanted[next] == input;
    built.gradients.push_back(was_wanted ? found[next++] : Value{});
  }
  built.program = std::move(b).finish();
  return built;
}

Array<double> random_array(const Operand& operand, std::mt19937& random) {
  Array<double> array(TensorSpec{operand.dtype, operand.shape});
  std::uniform_real_distribution<double> real(operand.low, operand.high);
  std::uniform_int_distribution<int64_t> whole(static_cast<int64_t>(operand.low), static_cast<int64_t>(operand.high));
  for (double& x : array.reals) x = real(random);
  for (int64_t& x : array.ints) x = whole(random);
  for (size_t i = 0; i < operand.values.size(); ++i) {
    if (is_floating(operand.dtype)) array.reals.at(i) = operand.values[i];
    if (!is_floating(operand.dtype)) array.ints.at(i) = static_cast<int64_t>(operand.values[i]);
  }
  return array;
}

Arrays<double> random_inputs(const OpCase& op_case, const Built& built) {
  std::mt19937 random(20);
  Arrays<double> arrays;
  for (size_t i = 0; i < built.inputs.size(); ++i) {
    arrays[built.program[built.inputs[i]].name] = random_array(op_case.operands[i], random);
  }
  for (const Value seed : built.seeds) {
    if (!seed) continue;
    const TensorSpec spec = built.program[seed].type.spec();
    arrays[built.program[seed].name] = random_array({.shape = spec.shape, .dtype = spec.dtype}, random);
  }
  return arrays;
}

Arrays<float> in_f32(const Arrays<double>& arrays) {
  Arrays<float> result;
  for (const auto& [name, array] : arrays) {
    Array<float>& single = result[name] = Array<float>(TensorSpec{array.dtype, array.shape});
    std::copy(array.reals.begin(), array.reals.end(), single.reals.begin());
    single.ints = array.ints;
  }
  return result;
}

double element(const Array<double>& array, size_t i) {
  return array.reals.empty() ? static_cast<double>(array.ints.at(i)) : array.reals.at(i);
}

const Array<double>& array_of(const Evaluation<double>& evaluation, Value value) {
  return evaluation.values[static_cast<size_t>(value.index)];
}

void expect_round_trip(const Program& program) {
  const std::string text = write_program(program);
  const Program read = parse_program(text);
  EXPECT_EQ(write_program(read), text);
  EXPECT_TRUE(find_problems(read).empty()) << text;
}

void expect_expected(const OpCase& op_case, const Built& built, const Evaluation<double>& evaluation) {
  const Value y = built.outputs[0];
  if (!op_case.type.empty()) {
    EXPECT_EQ(built.program[y].type.text(), op_case.type);
  }
  if (op_case.expected.empty()) return;
  const Array<double>& array = array_of(evaluation, y);
  ASSERT_EQ(array.elements(), static_cast<int64_t>(op_case.expected.size()));
  for (size_t i = 0; i < op_case.expected.size(); ++i) {
    const double found = element(array, i);
    EXPECT_NEAR(found, op_case.expected[i], 1e-9 * std::max(1.0, std::abs(found))) << "element " << i;
  }
}

void expect_f32_agrees(const Built& built, const Evaluation<double>& f64, const Evaluation<float>& f32) {
  for (size_t v = 0; v < f64.values.size(); ++v) {
    const std::string& name = built.program.values[v].name;
    for (size_t i = 0; i < f64.values[v].reals.size(); ++i) {
      const double right = f64.values[v].reals[i];
      if (std::isinf(right) && right == f32.values[v].reals[i]) continue;
      ASSERT_NEAR(f32.values[v].reals[i], right, 2e-3 * std::max(1.0, std::abs(right))) << name << " element " << i;
    }
  }
}

// Element `flat` of a view, as a place in its storage.
int64_t place_in_storage(const ValueInfo& value, int64_t flat) {
  const Shape shape = value.type.shape.shape();
  int64_t place = value.view->offset.constant();
  for (int axis = shape.rank() - 1; axis >= 0; --axis) {
    place += flat % shape[axis] * value.view->strides[axis].constant();
    flat /= shape[axis];
  }
  return place;
}

void expect_views_show_their_storage(const Built& built, const Evaluation<double>& evaluation) {
  for (size_t v = 0; v < built.program.values.size(); ++v) {
    const ValueInfo& value = built.program.values[v];
    if (!value.view) continue;
    const Array<double>& storage = array_of(evaluation, value.storage);
    const Array<double>& array = evaluation.values[v];
    for (int64_t i = 0; i < array.elements(); ++i) {
      const auto place = static_cast<size_t>(place_in_storage(value, i));
      ASSERT_LT(place, static_cast<size_t>(storage.elements())) << value.name << " element " << i;
      ASSERT_EQ(element(array, static_cast<size_t>(i)), element(storage, place)) << value.name << " element " << i;
    }
  }
}

// sum(output * seed) over all floating outputs.
double objective(const Built& built, const Arrays<double>& inputs) {
  const Evaluation<double> evaluation = evaluate(built.program, inputs);
  double sum = 0;
  for (size_t k = 0; k < built.outputs.size(); ++k) {
    if (!built.seeds[k]) continue;
    const auto& y = array_of(evaluation, built.outputs[k]).reals;
    const auto& seed = array_of(evaluation, built.seeds[k]).reals;
    for (size_t i = 0; i < y.size(); ++i) sum += y[i] * seed[i];
  }
  return sum;
}

double central_difference(const Built& forward, Arrays<double> inputs, const std::string& name, size_t element) {
  double& x = inputs[name].reals[element];
  const double at = x;
  const double step = 1e-5 * std::max(1.0, std::abs(at));
  x = at + step;
  const double above = objective(forward, inputs);
  x = at - step;
  const double below = objective(forward, inputs);
  return (above - below) / (2 * step);
}

void expect_gradients(const OpCase& op_case, const Built& built, const Arrays<double>& inputs,
                      const Evaluation<double>& evaluation) {
  OpCase forward_case = op_case;
  forward_case.differentiable = false;
  const Built forward = build(forward_case);
  for (size_t i = 0; i < built.inputs.size(); ++i) {
    if (!is_floating(op_case.operands[i].dtype)) continue;
    const std::string& name = built.program[built.inputs[i]].name;
    const int64_t count = op_case.operands[i].shape.elements();
    for (int64_t e = 0; e < count; e += std::max<int64_t>(1, count / kMostProbes)) {
      const auto at = static_cast<size_t>(e);
      const double expected = central_difference(forward, inputs, name, at);
      // An operand that gets no gradient op has the gradient zero.
      const double found = built.gradients[i] ? array_of(evaluation, built.gradients[i]).reals[at] : 0;
      ASSERT_NEAR(found, expected, op_case.tolerance * std::max(1.0, std::abs(expected)))
          << "gradient of operand " << i << " at element " << e << " in\n"
          << write_program(built.program);
    }
  }
}

}  // namespace

void check_op(const OpCase& op_case) {
  const Built built = build(op_case);
  ASSERT_NO_THROW(verify_bound(built.program)) << write_program(built.program);
  expect_round_trip(built.program);
  const Arrays<double> inputs = random_inputs(op_case, built);
  const Evaluation<double> evaluation = evaluate(built.program, inputs);
  expect_expected(op_case, built, evaluation);
  expect_f32_agrees(built, evaluation, evaluate(built.program, in_f32(inputs)));
  expect_views_show_their_storage(built, evaluation);
  if (op_case.differentiable) expect_gradients(op_case, built, inputs, evaluation);
}

std::string error_of(const std::function<void()>& act) {
  try {
    act();
  } catch (const ArgumentError& error) {
    return error.what();
  }
  return "";
}

}  // namespace plimsoll::program
