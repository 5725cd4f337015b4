// What ops cost in time where nothing was measured: the longer of computing and moving bytes, by what a machine can do.
#pragma once

#include <cstdint>
#include <vector>

#include "plimsoll/kernels/prepare.h"

namespace plimsoll::plan {

// What a machine can do at best. As it stands here: a machine like any other. Of this machine: roofline_of in
// cost_cache.h.
struct Roofline {
  double flops_per_s = 6e10;       // of one thread, in products of matrices
  double conv_flops_per_s = 6e10;  // likewise, in convolutions
  double bytes_per_s = 8e9;        // of all threads together
  double op_s = 2e-6;              // to start an op

  bool operator==(const Roofline&) const = default;
};

struct Work {
  int64_t flops = 0;
  int64_t bytes = 0;
  bool is_conv = false;
};

double roofline_seconds(const Work& work, int threads, const Roofline& machine = {});
// Of each op. Nothing for ops that do no work.
std::vector<double> roofline_seconds(const kernels::Lowered& lowered, const Roofline& machine = {});

// Whether the rate of convolutions counts for this op.
bool is_conv(const program::Op& op);

}  // namespace plimsoll::plan
