#include "tests/kernels/against_reference.h"

#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <thread>

#include "plimsoll/device/cuda/paper.h"
#include "plimsoll/device/device.h"
#include "plimsoll/kernels/cpu/support/low_precision.h"
#include "plimsoll/memory/limits.h"
#include "plimsoll/program/autodiff.h"
#include "plimsoll/program/op.h"
#include "plimsoll/program/random.h"
#include "plimsoll/program/text.h"
#include "plimsoll/run/floats.h"
#include "plimsoll/run/session.h"
#include "plimsoll/train/synthetic.h"
#include "tests/test_device.h"

namespace plimsoll {
namespace {

using program::Array;
using program::Arrays;
using program::Program;
using program::Value;

std::string& chosen_device() {
  static std::string device = test_device();
  return device;
}

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

std::vector<float> upcasted(std::span<const uint16_t> data, float (*from_half)(uint16_t)) {
  std::vector<float> wide;
  for (const uint16_t half : data) wide.push_back(from_half(half));
  return wide;
}

// `convert` takes a real number to an element.
template <class T, class F>
void store(run::Executor& executor, Value value, const Array<double>& array, const F& convert) {
  executor.fill<T>(value, [&](std::span<T> data) {
    for (size_t i = 0; i < data.size(); ++i) {
      data[i] = is_floating(array.dtype) ? convert(array.reals[i]) : static_cast<T>(array.ints[i]);
    }
  });
}

template <class T>
void store(run::Executor& executor, Value value, const Array<double>& array) {
  store<T>(executor, value, array, [](double x) { return static_cast<T>(x); });
}

void load_value(run::Executor& executor, Value value, const Array<double>& array) {
  switch (array.dtype) {
    case DType::f32:
      return store<float>(executor, value, array);
    case DType::f16:
      return store<uint16_t>(executor, value, array, [](double x) { return kernels::to_f16(static_cast<float>(x)); });
    case DType::bf16:
      return store<uint16_t>(executor, value, array, [](double x) { return kernels::to_bf16(static_cast<float>(x)); });
    case DType::f64:
      return store<double>(executor, value, array);
    case DType::i64:
      return store<int64_t>(executor, value, array);
    case DType::i32:
      return store<int32_t>(executor, value, array);
    default:
      return store<uint8_t>(executor, value, array);
  }
}

// A few roundings of what an op reads and makes.
constexpr double kF16Tolerance = 3e-3;
constexpr double kBf16Tolerance = 2e-2;

// Cards compute some of what is f64 in f32.
double least_f64_tolerance() { return compared_device().starts_with("cuda") ? 1e-6 : 0; }

template <class T, class Expected>
void expect_near(std::span<const T> found, const std::vector<Expected>& expected, double tolerance,
                 const std::string& name, double carried = 0) {
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
    ASSERT_NEAR(f, e, tolerance * scale + carried) << name << " at " << i;
  }
}

// How far roundings are carried, by name of the value: what is allowed beyond the tolerance.
using Carried = std::map<std::string, double>;

void expect_value(run::Executor& executor, Value value, const Array<double>& expected, double tolerance,
                  const Carried& carried) {
  const std::string& name = executor.program()[value].name;
  switch (expected.dtype) {
    case DType::f32:
      return expect_near<float>(executor.read<float>(value), expected.reals, tolerance, name,
                                carried.contains(name) ? carried.at(name) : 0);
    case DType::f16:
      return expect_near<float>(upcasted(executor.read<uint16_t>(value), kernels::from_f16), expected.reals,
                                std::max(tolerance, kF16Tolerance), name);
    case DType::bf16:
      return expect_near<float>(upcasted(executor.read<uint16_t>(value), kernels::from_bf16), expected.reals,
                                std::max(tolerance, kBf16Tolerance), name);
    case DType::f64:
      return expect_near<double>(executor.read<double>(value), expected.reals,
                                 std::max(tolerance, least_f64_tolerance()), name);
    case DType::i64:
      return expect_near<int64_t>(executor.read<int64_t>(value), expected.ints, 0, name);
    case DType::i32:
      return expect_near<int32_t>(executor.read<int32_t>(value), expected.ints, 0, name);
    default:
      return expect_near<uint8_t>(executor.read<uint8_t>(value), expected.ints, 0, name);
  }
}

void expect_step(const Program& program, const Arrays<double>& values, const program::Evaluation<double>& expected,
                 double tolerance, int threads, const Carried& carried) {
  run::Session session(program, {.device = compared_device(), .threads = threads}, compared_budget());
  run::Executor& executor = session.executor();
  load(executor, values);
  executor.step();
  if (cuda::CompileOnly::architecture() != nullptr) return;  // nothing was computed
  for (const Value value : program.outputs) {
    expect_value(executor, value, expected.outputs.at(program[value].name), tolerance, carried);
  }
  for (const auto* kept : {&program.parameters, &program.state}) {
    for (const Value value : *kept) {
      expect_value(executor, value, expected.after.at(program[value].name), tolerance, carried);
    }
  }
}

void expect_steps(const Program& program, const Arrays<double>& values, const program::Evaluation<double>& expected,
                  double tolerance, const Carried& carried) {
  for (const int threads : {1, 2}) {
    if (threads > 1 && compared_device().starts_with("cuda")) continue;
    if (threads > static_cast<int>(std::thread::hardware_concurrency())) continue;
    SCOPED_TRACE(fmt::format("{} threads\n{}", threads, program::write_program(program)));
    expect_step(program, values, expected, tolerance, threads, carried);
    if (testing::Test::HasFatalFailure()) return;
  }
}

constexpr double kRounding = 0x1p-24;  // of f32, at most, of what is rounded

// The values in f32, each moved by a rounding up or down, or not at all in draw 0.
Arrays<float> moved(const Arrays<double>& values, uint64_t draw) {
  Arrays<float> made;
  uint64_t stream = 0;
  for (const auto& [name, array] : values) {
    Array<float>& to = made[name];
    to.dtype = array.dtype;
    to.shape = array.shape;
    to.ints = array.ints;
    for (size_t i = 0; i < array.reals.size(); ++i) {
      const bool up = (program::random_bits(draw, stream, i) & 1U) != 0;
      const double by = draw == 0 ? 0 : up ? 2 * kRounding : -2 * kRounding;
      to.reals.push_back(static_cast<float>(array.reals[i] * (1 + by)));
    }
    ++stream;
  }
  return made;
}

// The most that the reference strays in f32 on the values, and on some that are a rounding away from them.
Carried carried_in_f32(const Program& program, const Arrays<double>& values,
                       const program::Evaluation<double>& expected) {
  constexpr uint64_t kDraws = 3;
  Carried most;
  const auto add = [&](const Arrays<float>& found, const Arrays<double>& exact) {
    for (const auto& [name, array] : found) {
      const std::vector<double>& reals = exact.at(name).reals;
      for (size_t i = 0; i < array.reals.size(); ++i) {
        const double off = std::abs(static_cast<double>(array.reals[i]) - reals[i]);
        if (std::isfinite(off)) most[name] = std::max(most[name], off);
      }
    }
  };
  for (uint64_t draw = 0; draw < kDraws; ++draw) {
    const auto found = program::evaluate<float>(program, moved(values, draw));
    add(found.outputs, expected.outputs);
    add(found.after, expected.after);
  }
  return most;
}

}  // namespace

double sum_tolerance(int64_t terms) {
  constexpr double kSigmas = 7.8;  // that 10^7 sums all keep to, but for a chance of one in a million
  return kSigmas * kRounding * std::sqrt((static_cast<double>(terms) + 2) / 6);
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

void compare_on(std::string device) { chosen_device() = std::move(device); }
const std::string& compared_device() { return chosen_device(); }
Budget compared_budget() { return device::find_device(compared_device()).budget(); }

void expect_agreement(const Program& program, const Arrays<double>& values, double tolerance) {
  if (compared_device().empty()) GTEST_SKIP() << "there is no such device here";
  const bool computes = cuda::CompileOnly::architecture() == nullptr;
  const auto expected = computes ? program::evaluate<double>(program, values) : program::Evaluation<double>{};
  expect_steps(program, values, expected, tolerance, {});
}

void expect_agreement_of_a_step(const Program& program, const Arrays<double>& values) {
  if (compared_device().empty()) GTEST_SKIP() << "there is no such device here";
  const auto expected = program::evaluate<double>(program, values);
  expect_steps(program, values, expected, sum_tolerance(program), carried_in_f32(program, values, expected));
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
