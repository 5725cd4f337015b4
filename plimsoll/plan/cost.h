// What ops cost in time: measured on this machine where that was done (cost_cache.h), and where not by a roofline.
#pragma once

#include <cstdint>
#include <vector>

#include "plimsoll/kernels/prepare.h"

namespace plimsoll::plan {

// What a machine can do at best, for ops that were not measured.
struct Roofline {
  double flops_per_s = 6e10;  // of one thread
  double bytes_per_s = 8e9;   // of all threads together
  double op_s = 2e-6;         // to start an op
};

// The longer of computing and moving bytes.
double roofline_seconds(int64_t flops, int64_t bytes, int threads, const Roofline& machine = {});
// Of each op. Nothing for ops that do no work.
std::vector<double> roofline_seconds(const kernels::Lowered& lowered, const Roofline& machine = {});

}  // namespace plimsoll::plan
