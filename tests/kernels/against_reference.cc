#include "tests/kernels/against_reference.h"

#include <gtest/gtest.h>

#include <cmath>
#include <thread>

#include "plimsoll/kernels/cpu/support/low_precision.h"
#include "plimsoll/memory/limits.h"
#include "plimsoll/program/autodiff.h"
#include "plimsoll/program/op.h"
#include "plimsoll/program/random.h"
#include "plimsoll/program/text.h"
#include "plimsoll/run/floats.h"
#include "plimsoll/run/session.h"
#include "plimsoll/train/synthetic.h"

namespace plimsoll {
namespace {

using program::Array;
using program::Arrays;
using program::Program;
using program::Value;

double rounded(DType dtype, double x) {
  const auto narrow = static_cast<float>(x);
  if (dtype == DType::f16) return kernels::from_f16(kernels::to_f16(narrow));
  if (dtype == DType::bf16) return kernels::from_bf16(kernels::to_bf16(narrow));
  return narrow;
}

Array<double> random_array(const Program& program, Value value, const Comparison& comparison) {
  Array<double> array(program[value].type.spec());
  const auto range = static_cast<uint32_t>(train::index_range(program, value));
  for (int64_t i = 0; i < array.elements(); ++i) {
    const uint32_t bits =
        program::random_bits(comparison.seed, static_cast<uint64_t>(value.index), static_cast<uint64_t>(i));
    if (is_floating(array.dtype)) {
      const double drawn = comparison.low + (comparison.high - comparison.low) * bits / 4294967296.0;
      array.reals[static_cast<size_t>(i)] = rounded(array.dtype, drawn);
    } else {
      array.ints[static_cast<size_t>(i)] = bits % range;
    }
  }
  return array;
}

void store_low_precision(std::span<uint16_t> data, const Array<double>& array, uint16_t (*to_half)(float)) {
  for (size_t i = 0; i < data.size(); ++i) data[i] = to_half(static_cast<float>(array.reals[i]));
}

std::vector<float> upcasted(std::span<const uint16_t> data, float (*from_half)(uint16_t)) {
  std::vector<float> wide;
  for (const uint16_t half : data) wide.push_back(from_half(half));
  return wide;
}

template <class T>
void store(std::span<T> data, const Array<double>& array) {
  for (size_t i = 0; i < data.size(); ++i) {
    data[i] = is_floating(array.dtype) ? static_cast<T>(array.reals[i]) : static_cast<T>(array.ints[i]);
  }
}

void load_value(run::Executor& executor, Value value, const Array<double>& array) {
  switch (array.dtype) {
    case DType::f32:
      return store(executor.data<float>(value), array);
    case DType::f16:
      return store_low_precision(executor.data<uint16_t>(value), array, kernels::to_f16);
    case DType::bf16:
      return store_low_precision(executor.data<uint16_t>(value), array, kernels::to_bf16);
    case DType::f64:
      return store(executor.data<double>(value), array);
    case DType::i64:
      return store(executor.data<int64_t>(value), array);
    case DType::i32:
      return store(executor.data<int32_t>(value), array);
    default:
      return store(executor.data<uint8_t>(value), array);
  }
}

// A few roundings of what an op reads and makes.
constexpr double kF16Tolerance = 3e-3;
constexpr double kBf16Tolerance = 2e-2;

template <class T, class Expected>
void expect_near(std::span<const T> found, const std::vector<Expected>& expected, double tolerance,
                 const std::string& name) {
  ASSERT_EQ(found.size(), expected.size()) << name;
  double scale = 1;
  for (const Expected e : expected) {
    if (std::isfinite(static_cast<double>(e))) scale = std::max(scale, std::abs(static_cast<double>(e)));
  }
  for (size_t i = 0; i < found.size(); ++i) {
    const auto f = static_cast<double>(found[i]);
    const auto e = static_cast<double>(expected[i]);
    if (std::isnan(e) && std::isnan(f)) continue;
    if (std::isinf(e) && e == f) continue;
    ASSERT_NEAR(f, e, tolerance * scale) << name << " at " << i;
  }
}

void expect_value(run::Executor& executor, Value value, const Array<double>& expected, double tolerance) {
  const std::string& name = executor.program()[value].name;
  switch (expected.dtype) {
    case DType::f32:
      return expect_near<float>(executor.data<float>(value), expected.reals, tolerance, name);
    case DType::f16:
      return expect_near<float>(upcasted(executor.data<uint16_t>(value), kernels::from_f16), expected.reals,
                                std::max(tolerance, kF16Tolerance), name);
    case DType::bf16:
      return expect_near<float>(upcasted(executor.data<uint16_t>(value), kernels::from_bf16), expected.reals,
                                std::max(tolerance, kBf16Tolerance), name);
    case DType::f64:
      return expect_near<double>(executor.data<double>(value), expected.reals, tolerance, name);
    case DType::i64:
      return expect_near<int64_t>(executor.data<int64_t>(value), expected.ints, 0, name);
    case DType::i32:
      return expect_near<int32_t>(executor.data<int32_t>(value), expected.ints, 0, name);
    default:
      return expect_near<uint8_t>(executor.data<uint8_t>(value), expected.ints, 0, name);
  }
}

void expect_step(const Program& program, const Arrays<double>& values, const program::Evaluation<double>& expected,
                 double tolerance, int threads) {
  run::Session session(program, {.threads = threads}, machine_budget());
  run::Executor& executor = session.executor();
  load(executor, values);
  executor.step();
  for (const Value value : program.outputs) {
    expect_value(executor, value, expected.outputs.at(program[value].name), tolerance);
  }
  for (const auto* kept : {&program.parameters, &program.state}) {
    for (const Value value : *kept) {
      expect_value(executor, value, expected.after.at(program[value].name), tolerance);
    }
  }
}

}  // namespace

double sum_tolerance(int64_t terms) {
  constexpr double kRounding = 0x1p-24;
  return 4 * kRounding * std::sqrt(static_cast<double>(terms));
}

double sum_tolerance(const Program& program) {
  double strays = 0;
  for (const program::Op& op : program.ops) {
    const int64_t results = op.outputs[0] ? program[op.outputs[0]].type.shape.shape().elements() : 0;
    const int64_t terms = results > 0 ? program::flops(program, op).constant() / results : 0;
    strays += sum_tolerance(std::max<int64_t>(terms, 1));
  }
  return strays;
}

Arrays<double> random_values(const Program& program, const Comparison& comparison) {
  Arrays<double> values;
  for (const auto* list : {&program.inputs, &program.parameters, &program.state}) {
    for (const Value value : *list) values[program[value].name] = random_array(program, value, comparison);
  }
  return values;
}

void load(run::Executor& executor, const Arrays<double>& values) {
  const Program& program = executor.program();
  for (const auto* list : {&program.inputs, &program.parameters, &program.state}) {
    for (const Value value : *list) load_value(executor, value, values.at(program[value].name));
  }
}

std::vector<std::vector<float>> outputs_of(const Program& program, const Arrays<double>& values,
                                           const kernels::DeviceOptions& device) {
  run::Session session(program, device, machine_budget());
  load(session.executor(), values);
  session.executor().step();
  std::vector<std::vector<float>> outputs;
  for (const Value output : program.outputs) outputs.push_back(run::read_floats(session.executor(), output));
  return outputs;
}

void expect_agreement(const Program& program, const Arrays<double>& values, double tolerance) {
  const auto expected = program::evaluate<double>(program, values);
  for (const int threads : {1, 2}) {
    if (threads > static_cast<int>(std::thread::hardware_concurrency())) continue;
    SCOPED_TRACE(fmt::format("{} threads\n{}", threads, program::write_program(program)));
    expect_step(program, values, expected, tolerance, threads);
    if (testing::Test::HasFatalFailure()) return;
  }
}

void expect_agreement(const Program& program, const Comparison& comparison) {
  expect_agreement(program, random_values(program, comparison), comparison.tolerance);
}

void expect_agreement_in_all_precisions(const std::string& text, const Comparison& comparison) {
  for (const char* dtype : {"f32", "f16", "bf16"}) {
    std::string replaced = text;
    for (size_t at = replaced.find("f32"); at != std::string::npos; at = replaced.find("f32")) {
      if (dtype == std::string("f32")) break;
      replaced.replace(at, 3, dtype);
    }
    expect_agreement(with_gradients(replaced), comparison);
    if (testing::Test::HasFatalFailure()) return;
  }
}

Program with_gradients(const std::string& text) {
  program::Builder builder(program::parse_program(text));
  std::vector<program::Root> roots;
  std::vector<Value> wanted;
  for (const Value value : builder.program().inputs) {
    if (is_floating(builder.type(value).dtype)) wanted.push_back(value);
  }
  const std::vector<Value> outputs = builder.program().outputs;
  for (size_t i = 0; i < outputs.size(); ++i) {
    if (!is_floating(builder.type(outputs[i]).dtype)) continue;
    roots.push_back({outputs[i], builder.input(fmt::format("seed_of_output.{}", i), builder.type(outputs[i]))});
  }
  for (const Value gradient : program::gradients(builder, roots, wanted)) {
    if (!gradient) continue;
    const bool is_view = builder.program()[gradient].view.has_value();
    builder.output(is_view ? builder.emit("affine", {gradient}) : gradient);  // outputs are read in place
  }
  return std::move(builder).finish();
}

}  // namespace plimsoll
