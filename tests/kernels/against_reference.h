// Runs programs on a device's kernels and compares every output, and parameters and state as the step leaves them, with
// the reference evaluator in f64.
#pragma once

#include <string>

#include "plimsoll/program/evaluate.h"
#include "plimsoll/run/executor.h"

namespace plimsoll {

// The device that comparisons run on, for the process: the tests' (test_device.h) at first. Where it is "", comparisons
// are skipped.
void compare_on(std::string device);
const std::string& compared_device();
Budget compared_budget();

struct Comparison {
  double low = -1;  // of random floating values
  double high = 1;
  double tolerance = 2e-5;  // of 1, or of the largest element of the array where that is larger
  uint64_t seed = 1;
};

// How far a sum in f32 of so many products may be from the exact one, of the largest sum. Each of n additions rounds by
// at most u = 2^-24 of the sum so far, evenly, and sums of either sign grow as a random walk does: u sqrt(n / 6) is the
// standard deviation of all roundings, and u sqrt(2 / 6) that of the products'. As many of them as all sums keep to.
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
// Of a whole step, to sum_tolerance of it and how far its ops carry roundings: normalisations over few elements make
// them larger. That is measured, as what plain f32 strays from f64 in the reference, on the values and their
// neighbours.
void expect_agreement_of_a_step(const program::Program& program, const program::Arrays<double>& values);

// The text as it is, and with f16 and with bf16 in place of f32; then to what these can tell apart.
void expect_agreement_in_all_precisions(const std::string& text, const Comparison& comparison = {});

// The program with the gradients of all its floating outputs, by all its floating inputs, as outputs.
program::Program with_gradients(const std::string& text);

}  // namespace plimsoll
