// Runs programs on a device's kernels and compares every output, and parameters and state as the step leaves them, with
// the reference evaluator in f64.
#pragma once

#include <string>

#include "plimsoll/program/evaluate.h"
#include "plimsoll/run/executor.h"

namespace plimsoll {

// The device that comparisons run on, for the process: the tests' (test_device.h) at first. Where it is "", comparisons are skipped.
void compare_on(std::string device);
const std::string& compared_device();
Budget compared_budget();

struct Comparison {
  double low = -1;  // of random floating values
  double high = 1;
  double tolerance = 2e-5;  // of 1, or of the largest element of the array where that is larger
  uint64_t seed = 1;
};

// How far two sums in f32 of so many terms may be apart, of the largest sum: roundings add up as a random walk does,
// and this is four times what that strays.
double sum_tolerance(int64_t terms);

// For a whole program: each op strays by the roundings of its own sums, and all of that adds up, whichever way the ops
// after it turn it.
double sum_tolerance(const program::Program& program);

// Random values for what comes in, indices in range.
program::Arrays<double> random_values(const program::Program& program, const Comparison& comparison);

void load(run::Executor& executor, const program::Arrays<double>& values);

// What a step of the program gives on a device, in the order of its outputs.
std::vector<std::vector<float>> outputs_of(const program::Program& program, const program::Arrays<double>& values,
                                           const kernels::DeviceOptions& device);

// Reports through GoogleTest. Runs with 1 and 2 threads.
void expect_agreement(const program::Program& program, const Comparison& comparison = {});
void expect_agreement(const program::Program& program, const program::Arrays<double>& values, double tolerance);

// The text as it is, and with f16 and with bf16 in place of f32; then to what these can tell apart.
void expect_agreement_in_all_precisions(const std::string& text, const Comparison& comparison = {});

// The program with the gradients of all its floating outputs, by all its floating inputs, as outputs.
program::Program with_gradients(const std::string& text);

}  // namespace plimsoll
